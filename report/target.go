package report

// CheckTarget says what keeps a run folder from being written to dir, or nil, so
// that a command can refuse before a long run rather than after it.
func CheckTarget(dir string) error {
	_, err := place(dir)
	return err
}
