package report

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// CheckTarget says what keeps a run folder from being written to dir, or nil, so
// that a command can refuse before a long run rather than after it. It leaves
// nothing behind.
func CheckTarget(dir string) error {
	target, err := place(dir)
	if err != nil {
		return err
	}
	parent := filepath.Dir(target)
	for { // up to the folder that exists already
		if _, err := os.Stat(parent); !errors.Is(err, fs.ErrNotExist) || filepath.Dir(parent) == parent {
			break
		}
		parent = filepath.Dir(parent)
	}
	probe, err := os.MkdirTemp(parent, ".tgssim-probe-")
	if err != nil {
		return err
	}
	return os.Remove(probe)
}
