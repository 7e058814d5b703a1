// Command hooks tells what podman's package makes of hook files and containers.
//
//	hooks < cases > outcomes
//
// A case is a JSON object {"directories", "annotations", "args", "hasBindMounts", "extensionStages", "times"}: directories in
// order of increasing preference, each a list of {"name", "content"} in base64, for both may be any bytes. For each case a line
// comes out: {"errors", "order", "matched", "failed", "hooks", "extension", "inject", "load"}. errors are those of single
// files, {"directory", "name", "error"}; order has the names of all hooks as they are injected, matched those that match;
// failed are hooks whose matching itself is an error, which upstream makes the container's: they are left out of hooks, what
// is injected. inject and load have what "times" injections, and as many readings of all files, took in nanoseconds.
//
// A case {"patterns", "texts"} is about regular expressions: {"compiled", "found"} say which patterns compile, and for each
// pattern which texts it matches. A case {"lower": true} gets all runes that change when lower-cased.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"regexp"
	"strings"
	"unicode"

	"github.com/sirupsen/logrus"
)

type testCase struct {
	Directories     [][]file          `json:"directories"`
	Annotations     map[string]string `json:"annotations"`
	Args            []string          `json:"args"`
	HasBindMounts   bool              `json:"hasBindMounts"`
	ExtensionStages []string          `json:"extensionStages"`
	Times           int               `json:"times"`

	Patterns []string `json:"patterns"`
	Texts    []string `json:"texts"`

	Lower bool `json:"lower"`
}

func main() {
	logrus.SetOutput(io.Discard)
	if err := serve(); err != nil {
		log.Fatal(err)
	}
}

func serve() error {
	cases, out := json.NewDecoder(bufio.NewReader(os.Stdin)), json.NewEncoder(os.Stdout)
	for {
		var c testCase
		if err := cases.Decode(&c); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("case: %w", err)
		}
		answer, err := play(&c)
		if err != nil {
			return err
		}
		if err := out.Encode(answer); err != nil {
			return err
		}
	}
}

func play(c *testCase) (any, error) {
	switch {
	case c.Patterns != nil:
		return search(c.Patterns, c.Texts), nil
	case c.Lower:
		return lower(), nil
	}
	return inject(c)
}

type searched struct {
	Compiled []bool  `json:"compiled"`
	Found    [][]int `json:"found"`
}

func search(patterns, texts []string) searched {
	var s searched
	for _, pattern := range patterns {
		found := []int{}
		compiled, err := regexp.Compile(pattern)
		for i, text := range texts {
			if err == nil && compiled.MatchString(text) {
				found = append(found, i)
			}
		}
		s.Compiled, s.Found = append(s.Compiled, err == nil), append(s.Found, found)
	}
	return s
}

func lower() map[string]string {
	changed := map[string]string{}
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if s := string(r); strings.ToLower(s) != s {
			changed[s] = strings.ToLower(s)
		}
	}
	return changed
}
