// Package atomicfile writes files and folders that are there whole or not at all. They
// are filled beside their place, under a hidden name, and then renamed. A killed
// process leaves at most hidden .NAME.tmp-* entries behind.
package atomicfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// File writes a file with what fill writes, in place of one that may be there. It
// is there whole or not at all even after a power failure. Its folder must exist.
func File(name string, fill func(w io.Writer) error) error {
	dir := filepath.Dir(name)
	f, err := os.CreateTemp(dir, "."+filepath.Base(name)+".tmp-")
	if err != nil {
		return err
	}
	err = fill(f)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(dir)
}

// Bytes is a fill of File that writes data.
func Bytes(data []byte) func(w io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	_ = d.Sync() // some file systems cannot, and do without
	return d.Close()
}

// Folder makes a folder of what fill puts into the one that it is given, in place
// of one that may be there, which goes as a whole; whether it may go is the
// caller's to know. target is the old folder, the new one or, for an instant, not
// there, and never half of either. The folders above it are made.
func Folder(target string, fill func(dir string) error) error {
	target, err := filepath.Abs(target)
	if err != nil {
		return err
	}
	parent, base := filepath.Split(target)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(parent, "."+base+".tmp-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp) // nothing is left there when all went well
	if err := fill(tmp); err != nil {
		return err
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	return replace(target, tmp)
}

// replace puts tmp in the place of target. Should that fail half way, the old
// folder goes back to its place.
func replace(target, tmp string) error {
	old := tmp + "-old"
	err := os.Rename(target, old)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return os.Rename(tmp, target)
	case err != nil:
		return err
	}
	if err := os.Rename(tmp, target); err != nil {
		return errors.Join(err, os.Rename(old, target))
	}
	return os.RemoveAll(old)
}
