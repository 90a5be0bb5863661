
# Names of objects, contexts and namespaces, for arguments that are names.
_ferroplane_with_names() {
    _ferroplane "$@"
    local names IFS=$'\n'
    names="$(ferroplane internal complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)"
    if [[ -n $names ]]; then COMPREPLY=($names); fi
}
complete -F _ferroplane_with_names -o bashdefault -o default ferroplane
