// Command oracle tells what the original client sends to legacy plugins.
//
//	oracle [-conf CONF.json] < cases > outcomes
//
// A case is a JSON object {"state", "pod", "container", "conf", "answers"}: pod and container as protojson (container null
// or absent: the event is the pod's), conf a conf.json in place of -conf's, answers what plugins print, by type, in place of
// a plain success. For each case one line comes out: {"plugins", "requests", "error"}, the types that were run, what each of
// them read, in the chain's order, and what the client said in the end. conf, answers and requests are in base64: they may
// be any bytes.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/containerd/nri/pkg/api"
	v1 "github.com/containerd/nri/types/v1"

	"peers/internal/legacy"
	"peers/internal/noop"
	"peers/internal/pb"
)

type testCase struct {
	State     v1.State          `json:"state"`
	Pod       json.RawMessage   `json:"pod"`
	Container json.RawMessage   `json:"container"`
	Conf      []byte            `json:"conf"`
	Answers   map[string][]byte `json:"answers"`
}

type outcome struct {
	Plugins  []string `json:"plugins"`
	Requests [][]byte `json:"requests"`
	Error    string   `json:"error"`
}

func main() {
	if noop.Called() {
		log.Fatal(noop.Main())
	}
	conf := flag.String("conf", "", "a conf.json, for cases that bring none")
	flag.Parse()
	stage, err := noop.NewStage()
	if err == nil {
		err = serve(stage, *conf)
		stage.Close()
	}
	if err != nil {
		log.Fatal(err)
	}
}

func serve(stage *noop.Stage, conf string) error {
	cases, out := json.NewDecoder(bufio.NewReader(os.Stdin)), json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for {
		var c testCase
		if err := cases.Decode(&c); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("case: %w", err)
		}
		if err := out.Encode(run(stage, conf, &c)); err != nil {
			return err
		}
	}
}

func run(stage *noop.Stage, conf string, c *testCase) outcome {
	err := play(stage, conf, c)
	calls, recordErr := stage.Calls()
	o := outcome{Plugins: []string{}, Requests: [][]byte{}}
	for _, call := range calls {
		o.Plugins = append(o.Plugins, call.Plugin)
		o.Requests = append(o.Requests, call.Request)
	}
	if err := errors.Join(err, recordErr); err != nil {
		o.Error = err.Error()
	}
	return o
}

func play(stage *noop.Stage, conf string, c *testCase) (err error) {
	defer func() { // upstream's client trips over "plugins": [null]
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	list, err := load(conf, c.Conf)
	if err != nil {
		return err
	}
	pod, container := &api.PodSandbox{}, &api.Container{}
	if err := errors.Join(pb.Decode(c.Pod, pod), pb.Decode(c.Container, container)); err != nil {
		return err
	}
	if len(c.Container) == 0 || string(c.Container) == "null" {
		container = nil
	}
	if err := stage.Set(types(list), c.Answers); err != nil {
		return err
	}
	return legacy.Invoke(list, c.State, pod, container)
}

func types(list *v1.ConfigList) (names []string) {
	for _, p := range list.Plugins {
		if p != nil {
			names = append(names, p.Type)
		}
	}
	return names
}

func load(conf string, text []byte) (*v1.ConfigList, error) {
	if text != nil {
		return legacy.Parse(text)
	}
	return legacy.Load(conf)
}
