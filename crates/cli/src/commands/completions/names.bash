
# Names of objects on the control plane, for arguments that are names.
_ferroplane_with_names() {
    local word="${COMP_WORDS[COMP_CWORD]}" kind="" prefix="" names
    _ferroplane "$@"
    # Flags and their values have no names of objects.
    [[ $word == -* || ${COMP_WORDS[COMP_CWORD - 1]} == -* ]] && return
    case "${COMP_WORDS[1]} ${COMP_WORDS[2]}" in
    "operation logs" | "operation cancel" | "operation retry") kind=operations.ops.crossplane.io ;;
    "operation next") kind=cronoperations.ops.crossplane.io ;;
    "actionset logs" | "actionset cancel") kind=actionsets.cr.kanister.io ;;
    "rollout status" | "rollout preview" | "rollout pause" | "rollout resume" | "rollout promote" | "rollout undo" | "rollout history")
        kind=functionrollouts.rollout.ferroplane.io
        ;;
    "why "* | "trace "* | "logs "* | "replay "* | "intercept "*)
        # KIND/NAME
        if [[ $word == */* ]]; then kind="${word%%/*}" prefix="${word%%/*}/"; fi
        ;;
    esac
    [[ -z $kind || $COMP_CWORD -lt 2 ]] && return
    [[ -z $prefix && $COMP_CWORD -lt 3 ]] && return
    names="$(ferroplane internal names "$kind" 2>/dev/null)" || return
    COMPREPLY+=($(compgen -P "$prefix" -W "$names" -- "${word#"$prefix"}"))
}
complete -F _ferroplane_with_names -o bashdefault -o default ferroplane
