# Names of objects, contexts and namespaces, for arguments that are names.
(( $+functions[_ferroplane_names] )) ||
_ferroplane_names() {
    local -a names
    names=("${(@f)$(ferroplane internal complete -- "${(@)_ferroplane_words}" 2>/dev/null)}")
    if [[ -n "${names[*]}" ]]; then
        compadd -a names
    else
        _default
    fi
}

