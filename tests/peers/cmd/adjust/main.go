// Command adjust tells what adjustment the methods of NRI's Go package make.
//
//	adjust < cases > adjustments
//
// A case is a JSON object {"calls": [["AddEnv", "A", "1"], ...]}: methods of ContainerAdjustment with their arguments, in
// order. For each case a line comes out: {"adjust": the message as protojson}.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"reflect"

	"github.com/containerd/nri/pkg/api"

	"peers/internal/pb"
)

type testCase struct {
	Calls [][]json.RawMessage `json:"calls"`
}

func main() {
	cases, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var c testCase
		err := cases.Decode(&c)
		if errors.Is(err, io.EOF) {
			return
		}
		adjust := &api.ContainerAdjustment{}
		for _, words := range c.Calls {
			err = errors.Join(err, call(adjust, words))
		}
		text, failed := pb.Encode(adjust)
		if err = errors.Join(err, failed, out.Encode(map[string]json.RawMessage{"adjust": text})); err != nil {
			log.Fatal(err)
		}
	}
}

// call calls a method of the adjustment, whose arguments tell their own types.
func call(adjust *api.ContainerAdjustment, words []json.RawMessage) error {
	var name string
	if err := json.Unmarshal(words[0], &name); err != nil {
		return err
	}
	method := reflect.ValueOf(adjust).MethodByName(name)
	if !method.IsValid() || method.Type().NumIn() != len(words)-1 {
		return fmt.Errorf("no method %q with %d arguments", name, len(words)-1)
	}
	var arguments []reflect.Value
	for n, word := range words[1:] {
		argument := reflect.New(method.Type().In(n))
		if err := json.Unmarshal(word, argument.Interface()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		arguments = append(arguments, argument.Elem())
	}
	method.Call(arguments)
	return nil
}
