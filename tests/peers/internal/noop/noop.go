// Package noop is a legacy plugin that does nothing but tell: the program links itself under the names of plugins, records
// what each of them reads, and answers as it was told. (The idea is that of CNI's noop plugin.)
package noop

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
)

const stageVar = "NOOP_STAGE" // names the directory of the stage to the plugins

// Call is one run of a plugin.
type Call struct {
	Plugin  string `json:"plugin"`
	Request []byte `json:"request"`
}

// Called tells whether this process was started as a plugin.
func Called() bool { return os.Getenv(stageVar) != "" }

// Main is the plugin; it ends the process unless something is wrong with the stage itself.
func Main() error {
	dir, name := os.Getenv(stageVar), filepath.Base(os.Args[0])
	request, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	if err := record(filepath.Join(dir, "calls"), Call{name, request}); err != nil {
		return err
	}
	answers := map[string][]byte{}
	if text, err := os.ReadFile(filepath.Join(dir, "answers")); err != nil {
		return err
	} else if err := json.Unmarshal(text, &answers); err != nil {
		return err
	}
	answer, told := answers[name]
	if !told {
		answer = []byte(`{"plugin":"` + name + `","version":"0.1","error":"","metadata":{"k":"v"}}`)
	}
	if _, err := os.Stdout.Write(answer); err != nil {
		return err
	}
	os.Exit(0)
	return nil
}

func record(path string, c Call) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	return json.NewEncoder(f).Encode(c)
}

// Stage is the directory with the plugins' links, answers and records. While it is there PATH is its bin and nothing else,
// so that a plugin called logger is not the system's program of that name.
type Stage struct{ dir, self string }

// NewStage makes the directory and sets the environment for the plugins.
func NewStage() (*Stage, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "oracle-")
	if err != nil {
		return nil, err
	}
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		return nil, err
	}
	os.Setenv("PATH", bin)
	os.Setenv(stageVar, dir)
	return &Stage{dir, self}, nil
}

// Close removes the directory.
func (s *Stage) Close() { os.RemoveAll(s.dir) }

// Set forgets the calls so far and sets up plugins and their answers. A name that is a path gets no link.
func (s *Stage) Set(plugins []string, answers map[string][]byte) error {
	os.Remove(filepath.Join(s.dir, "calls"))
	for _, name := range plugins {
		if name == "" || strings.Contains(name, "/") {
			continue
		}
		if err := os.Symlink(s.self, filepath.Join(s.dir, "bin", name)); err != nil && !os.IsExist(err) {
			return err
		}
	}
	text, err := json.Marshal(answers)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.dir, "answers"), text, 0o600)
}

// Calls are the plugins run since Set, in order.
func (s *Stage) Calls() (calls []Call, err error) {
	f, err := os.Open(filepath.Join(s.dir, "calls"))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for in := json.NewDecoder(f); ; {
		var c Call
		if err := in.Decode(&c); err == io.EOF {
			return calls, nil
		} else if err != nil {
			return nil, err
		}
		calls = append(calls, c)
	}
}
