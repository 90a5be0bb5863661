    local -a _ferroplane_words
    _ferroplane_words=("${(@)words[2,CURRENT]}")
