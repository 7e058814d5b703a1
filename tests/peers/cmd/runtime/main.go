// Command runtime is the runtime side of NRI as containerd and CRI-O have it (pkg/adaptation), driven by a script.
//
// It reads JSON objects {"op": …} from stdin, does them one after the other, and answers each with one JSON line; what ops
// there are and what they take is `ops` in ops.go. One process holds several hosts ("host": NAME): runtimes of their own.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
)

func main() {
	hosts := map[string]*host{}
	in, out := json.NewDecoder(bufio.NewReader(os.Stdin)), json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for {
		var o op
		if err := in.Decode(&o); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			log.Fatalf("script: %v", err)
		}
		if err := out.Encode(do(hosts, &o)); err != nil {
			log.Fatal(err)
		}
	}
	for _, h := range hosts {
		h.adaptation.Stop()
	}
}

func do(hosts map[string]*host, o *op) *reply {
	run, known := ops[o.Op]
	if !known {
		return &reply{Error: fmt.Sprintf("no such op: %q", o.Op)}
	}
	r, err := run(hosts, o)
	if r == nil {
		r = &reply{}
	}
	if err != nil {
		r.Error = err.Error()
	}
	if h := hosts[o.Host]; h != nil {
		r.Plugins = h.plugins()
	}
	return r
}
