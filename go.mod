module github.com/tgssim/tgssim

go 1.26
