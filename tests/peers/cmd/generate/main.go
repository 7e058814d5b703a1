// Command generate shows what becomes of plugins' adjustments: collected as pkg/adaptation does, applied to an OCI
// specification as runtimes do.
//
//	generate < cases > outcomes
//
// A case is a JSON object {"spec", "adjustments"}, the adjustments of at most three plugins in their order, as protojson;
// without any the specification only goes through Go's types. For each case a line comes out: {"spec", "adjustment",
// "error"}, the adjustment being what all of them came to.
//
// The options that containerd gives the generator (internal/cri/nri/nri_api_linux.go, WithContainerAdjustment) are about
// CDI devices, classes of block I/O and RDT, and its own configuration, so there are none here.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"log"
	"os"

	rspec "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/sirupsen/logrus"
)

type testCase struct {
	Spec        *rspec.Spec       `json:"spec"`
	Adjustments []json.RawMessage `json:"adjustments"`
}

type outcome struct {
	Spec       *rspec.Spec     `json:"spec"`
	Adjustment json.RawMessage `json:"adjustment,omitempty"`
	Error      string          `json:"error,omitempty"`
}

func main() {
	logrus.SetOutput(io.Discard)
	c, err := newCollector()
	if err != nil {
		log.Fatal(err)
	}
	err = serve(c)
	c.close()
	if err != nil {
		log.Fatal(err)
	}
}

func serve(c *collector) error {
	in, out := json.NewDecoder(bufio.NewReader(os.Stdin)), json.NewEncoder(os.Stdout)
	for {
		var t testCase
		if err := in.Decode(&t); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := out.Encode(c.play(&t)); err != nil {
			return err
		}
	}
}
