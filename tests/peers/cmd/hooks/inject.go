package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	rspec "github.com/opencontainers/runtime-spec/specs-go"
	"go.podman.io/common/pkg/hooks"
	current "go.podman.io/common/pkg/hooks/1.0.0"
)

type file struct {
	Name    []byte `json:"name"`
	Content []byte `json:"content"`
}

type failure struct {
	Directory int    `json:"directory"`
	Name      []byte `json:"name"`
	Error     string `json:"error"`
}

type outcome struct {
	Errors    []failure               `json:"errors"`
	Order     [][]byte                `json:"order"`
	Matched   [][]byte                `json:"matched"`
	Failed    [][]byte                `json:"failed"`
	Hooks     *rspec.Hooks            `json:"hooks"`
	Extension map[string][]rspec.Hook `json:"extension"`
	Inject    []int64                 `json:"inject"`
	Load      []int64                 `json:"load"`
}

func inject(c *testCase) (*outcome, error) {
	root, err := os.MkdirTemp("", "hooks")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(root)
	o := &outcome{Errors: []failure{}}
	var directories []string
	for i, files := range c.Directories {
		directory := filepath.Join(root, fmt.Sprint(i))
		if err := os.Mkdir(directory, 0o700); err != nil {
			return nil, err
		}
		for _, f := range files {
			if err := o.write(c, i, directory, f); err != nil {
				return nil, err
			}
		}
		directories = append(directories, directory)
	}
	for o.Hooks == nil {
		if err := o.play(c, directories); err != nil {
			return nil, err
		}
	}
	return o, o.measure(c, directories)
}

// write puts a file into place; one that upstream cannot read is taken out again, and its error noted.
func (o *outcome) write(c *testCase, index int, directory string, f file) error {
	path := filepath.Join(directory, string(f.Name))
	if err := os.WriteFile(path, f.Content, 0o600); err != nil {
		return err
	}
	if _, err := hooks.Read(path, c.ExtensionStages); err != nil && err != hooks.ErrNoJSONSuffix {
		o.Errors = append(o.Errors, failure{index, f.Name, err.Error()})
		return os.Remove(path)
	}
	return nil
}

// play injects; where a hook fails to match, it takes that hook away and leaves the rest to the next try.
func (o *outcome) play(c *testCase, directories []string) error {
	manager, err := hooks.New(context.Background(), directories, c.ExtensionStages)
	if err != nil {
		return err
	}
	all := map[string]*current.Hook{}
	for _, directory := range directories {
		if err := hooks.ReadDir(directory, c.ExtensionStages, all); err != nil {
			return err
		}
	}
	o.Order, o.Matched = nil, nil
	for name, hook := range all {
		matched, err := hook.When.Match(&rspec.Spec{Process: &rspec.Process{Args: c.Args}}, c.Annotations, c.HasBindMounts)
		if err != nil {
			o.Failed = append(o.Failed, []byte(name))
			return remove(directories, name)
		}
		o.Order = append(o.Order, []byte(name))
		if matched {
			o.Matched = append(o.Matched, []byte(name))
		}
	}
	slices.SortFunc(o.Order, func(a, b []byte) int { return cmp.Compare(strings.ToLower(string(a)), strings.ToLower(string(b))) })
	spec := &rspec.Spec{Process: &rspec.Process{Args: c.Args}, Hooks: &rspec.Hooks{}}
	o.Extension, err = manager.Hooks(spec, c.Annotations, c.HasBindMounts)
	o.Hooks = spec.Hooks
	return err
}

func remove(directories []string, name string) error {
	for _, directory := range directories {
		if err := os.Remove(filepath.Join(directory, name)); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}

func (o *outcome) measure(c *testCase, directories []string) error {
	for range c.Times {
		start := time.Now()
		manager, err := hooks.New(context.Background(), directories, c.ExtensionStages)
		if err != nil {
			return err
		}
		loaded := time.Now()
		_, err = manager.Hooks(&rspec.Spec{Process: &rspec.Process{Args: c.Args}}, c.Annotations, c.HasBindMounts)
		if err != nil {
			return err
		}
		o.Load = append(o.Load, loaded.Sub(start).Nanoseconds())
		o.Inject = append(o.Inject, time.Since(loaded).Nanoseconds())
	}
	return nil
}
