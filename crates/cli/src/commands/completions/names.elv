
# Names of objects, contexts and namespaces, for arguments that are names.
var ferroplane-commands~ = $edit:completion:arg-completer[ferroplane]
set edit:completion:arg-completer[ferroplane] = {|@words|
    var names = [(try {
        e:ferroplane internal complete -- (all $words[1..]) 2>/dev/null | from-lines
    } catch _ {
        nop
    })]
    if (== (count $names) 0) {
        ferroplane-commands $@words
    } else {
        all $names
    }
}
