module example.org/labelizer

go 1.22
