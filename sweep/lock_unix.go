//go:build unix

package sweep

import (
	"errors"
	"os"
	"syscall"
)

// lock makes sure that no other process appends to the journal. The lock goes
// with the process, however that ends.
func lock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errors.New("another process is at work on this sweep")
	}
	return nil // a file system without locks does without
}
