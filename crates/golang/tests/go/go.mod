module ferroplane.io/golang-answers

go 1.26
