// Command generate shows what becomes of plugins' answers to CreateContainer and UpdateContainer: collected as
// pkg/adaptation does, and an adjustment applied to an OCI specification as runtimes do.
//
//	generate < cases > outcomes
//
// A case is a JSON object {"spec", "container", "adjustments"} or {"container", "resources", "updates"}: the container,
// the resources asked for, and the answers of plugins in their order are NRI messages, as base64. Without answers the
// specification only goes through Go's types. For each case a line comes out: {"spec", "adjustment", "update", "error",
// "panic"}; the adjustment, or the update, is what all of them came to, and "panic" is what would have ended a runtime.
//
// The options that containerd gives the generator (internal/cri/nri/nri_api_linux.go, WithContainerAdjustment) are about
// CDI devices, classes of block I/O and RDT, and its own configuration, so there are none here.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	nri "github.com/containerd/nri/pkg/runtime-tools/generate"
	rspec "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/opencontainers/runtime-tools/generate"
	"google.golang.org/protobuf/proto"
)

type testCase struct {
	Spec        *rspec.Spec `json:"spec"`
	Container   []byte      `json:"container"`
	Adjustments [][]byte    `json:"adjustments"`
	Resources   []byte      `json:"resources"`
	Updates     [][]byte    `json:"updates"`
}

type outcome struct {
	Spec       *rspec.Spec `json:"spec,omitempty"`
	Adjustment []byte      `json:"adjustment,omitempty"`
	Update     []byte      `json:"update,omitempty"`
	Error      string      `json:"error,omitempty"`
	Panic      string      `json:"panic,omitempty"`
}

func main() {
	in, out := json.NewDecoder(bufio.NewReader(os.Stdin)), json.NewEncoder(os.Stdout)
	for {
		var t testCase
		if err := in.Decode(&t); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			log.Fatal(err)
		}
		if err := out.Encode(play(&t)); err != nil {
			log.Fatal(err)
		}
	}
}

func play(t *testCase) (o *outcome) {
	o = &outcome{Spec: t.Spec}
	defer func() {
		if p := recover(); p != nil {
			o.Panic = fmt.Sprint(p)
		}
	}()
	var err error
	switch {
	case t.Adjustments != nil:
		err = adjust(t, o)
	case t.Updates != nil:
		err = update(t, o)
	}
	if err != nil {
		o.Error = err.Error()
	}
	return o
}

func adjust(t *testCase, o *outcome) error {
	adjustment, err := collectAdjustment(t.Container, t.Adjustments)
	if err != nil {
		return err
	}
	// Validators outside of the runtime get it like this.
	if o.Adjustment, err = proto.Marshal(adjustment); err != nil {
		return err
	}
	return nri.SpecGenerator(&generate.Generator{Config: t.Spec}).Adjust(adjustment)
}

func update(t *testCase, o *outcome) error {
	response, err := collectUpdate(t.Container, t.Resources, t.Updates)
	if err != nil {
		return err
	}
	o.Update, err = proto.Marshal(response)
	return err
}
