
# Names of objects, contexts and namespaces, for arguments that are names.
function __ferroplane_find_names
    set -l words (commandline --tokenize --current-process --cut-at-cursor)
    set -l word (commandline --current-token --cut-at-cursor)
    set -g __ferroplane_names (ferroplane internal complete -- $words[2..-1] "$word" 2>/dev/null)
    test (count $__ferroplane_names) -gt 0
end
complete -c ferroplane -n __ferroplane_find_names -f -a '$__ferroplane_names'
complete -c ferroplane -n __ferroplane_find_names -l context -r -f -a '$__ferroplane_names'
complete -c ferroplane -n __ferroplane_find_names -s n -l namespace -r -f -a '$__ferroplane_names'
complete -c ferroplane -n __ferroplane_find_names -l xr -r -f -a '$__ferroplane_names'
