
# Names of objects on the control plane, for arguments that are names.
function __ferroplane_names
    ferroplane internal names $argv[1] 2>/dev/null
end
function __ferroplane_names_of_kind
    set -l word (commandline --current-token)
    string match --quiet '*/*' -- $word; or return
    set -l kind (string split --max 1 / -- $word)[1]
    for name in (__ferroplane_names $kind)
        echo $kind/$name
    end
end
complete -c ferroplane -n '__fish_seen_subcommand_from operation; and __fish_seen_subcommand_from logs cancel retry' -f -a '(__ferroplane_names operations.ops.crossplane.io)'
complete -c ferroplane -n '__fish_seen_subcommand_from operation; and __fish_seen_subcommand_from next' -f -a '(__ferroplane_names cronoperations.ops.crossplane.io)'
complete -c ferroplane -n '__fish_seen_subcommand_from actionset; and __fish_seen_subcommand_from logs cancel' -f -a '(__ferroplane_names actionsets.cr.kanister.io)'
complete -c ferroplane -n '__fish_seen_subcommand_from rollout; and __fish_seen_subcommand_from status preview pause resume promote undo history' -f -a '(__ferroplane_names functionrollouts.rollout.ferroplane.io)'
complete -c ferroplane -n '__fish_seen_subcommand_from why trace replay intercept' -f -a '(__ferroplane_names_of_kind)'
complete -c ferroplane -n '__fish_seen_subcommand_from logs; and not __fish_seen_subcommand_from operation actionset' -f -a '(__ferroplane_names_of_kind)'
