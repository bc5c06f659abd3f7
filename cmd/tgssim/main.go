// Command tgssim simulates LLM inference clusters on AI fabrics and says how
// many tokens per GPU per second they deliver, and what the GPUs wait for.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tgssim/tgssim/internal/config"
)

// version is the version of the simulator. Results may change between versions,
// never within one.
const version = "0.1.0"

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2 // wrong usage or invalid input
	exitMissed  = 3 // an SLO was required and missed, or a limit on a regression
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A run stops by itself; whatever else is under way gets no more time than
	// this, and a second signal ends it at once.
	context.AfterFunc(ctx, func() {
		stop()
		time.Sleep(2 * time.Second)
		fmt.Fprintln(os.Stderr, "error: interrupted")
		os.Exit(exitFailure)
	})
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	os.Exit(code)
}

// run executes one command line and returns its exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := helpOn(root, args)
	if err == nil {
		err = root.ExecuteContext(ctx)
	}
	if err == nil {
		return exitOK
	}
	code := exitFailure
	var coded *codedError
	if errors.As(err, &coded) {
		code = coded.code
	}
	var problems config.Problems
	if errors.As(err, &problems) {
		for _, p := range problems {
			fmt.Fprintln(stderr, "error:", p)
		}
	} else {
		fmt.Fprintln(stderr, "error:", err)
	}
	return code
}

// A codedError is an error that decides the exit code.
type codedError struct {
	error
	code int
}

func (e *codedError) Unwrap() error { return e.error }

// invalid marks an error as the user's to fix.
func invalid(err error) error {
	if err == nil {
		return nil
	}
	return &codedError{err, exitUsage}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "tgssim",
		Short: "Simulate LLM inference clusters on AI fabrics",
		Long: `tgssim simulates LLM inference clusters on AI fabrics: requests, GPU kernels,
KV-cache transfers and expert-parallel AllToAll share one virtual clock. It
reports TGS (tokens per GPU per second), TTFT and ITL, and whether the GPUs wait
for the network or the network for the GPUs.`,
		Example: `  tgssim list scenarios
  tgssim run deepseek-v3-h800-pd
  tgssim run deepseek-v3-h800-pd --set cluster.oversubscription=4 --set cluster.spines=2`,
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		Args:              knownCommand,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return invalid(fmt.Errorf("%w; see `%s --help`", err, cmd.CommandPath()))
	})
	root.AddCommand(newRun(), newSweep(), newCompare(), newPlot(), newNet(), newCheck(), newValidate(), newCalibrate(), newList(), newVersion())
	return root
}

// knownCommand refuses what is none of the command's subcommands.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return invalid(fmt.Errorf("%s: unknown command %q%s", cmd.CommandPath(), args[0], config.Suggest(args[0], names)))
}

// helpOn refuses --help on a command that there is not, which cobra answers with
// the help of the one above it.
func helpOn(root *cobra.Command, args []string) error {
	if !slices.Contains(args, "--help") && !slices.Contains(args, "-h") {
		return nil
	}
	root.InitDefaultHelpCmd()
	cmd, rest, err := root.Find(args)
	if err != nil || !cmd.HasSubCommands() {
		return nil // whatever is wrong, Execute says so
	}
	for _, arg := range rest {
		if !strings.HasPrefix(arg, "-") {
			return knownCommand(cmd, []string{arg})
		}
	}
	return nil
}

// exactly checks the number of arguments and names what is expected.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < n:
			return invalid(fmt.Errorf("%s needs %s; see `%s --help`", cmd.CommandPath(), what, cmd.CommandPath()))
		case len(args) > n:
			return invalid(fmt.Errorf("%s takes %s, not also %q", cmd.CommandPath(), what, args[n]))
		}
		return nil
	}
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "tgssim", version)
			return err
		},
	}
}
