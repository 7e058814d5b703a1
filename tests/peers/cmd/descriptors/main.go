// Command descriptors prints the messages, enums and services of NRI's protocol as the Go module has them: JSON, numbers
// and names only, to be compared with ours.
package main

import (
	"encoding/json"
	"log"
	"os"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/reflect/protoreflect"
)

type field struct {
	Name   string `json:"name"`
	Number int    `json:"number"`
	Label  string `json:"label"` // optional, repeated
	Kind   string `json:"kind"`  // protobuf's name of the type
	Type   string `json:"type"`  // full name of the message or enum
	Oneof  string `json:"oneof"`
	Map    bool   `json:"map"`
}

type method struct {
	Input  string `json:"input"`
	Output string `json:"output"`
}

type description struct {
	Package  string                       `json:"package"`
	Messages map[string][]field           `json:"messages"`
	Enums    map[string]map[string]int    `json:"enums"`
	Services map[string]map[string]method `json:"services"`
}

func main() {
	file := (&api.ConfigureRequest{}).ProtoReflect().Descriptor().ParentFile()
	d := description{string(file.Package()), map[string][]field{}, map[string]map[string]int{}, map[string]map[string]method{}}
	d.messages(file.Messages())
	d.enums(file.Enums())
	d.services(file.Services())
	if err := json.NewEncoder(os.Stdout).Encode(d); err != nil {
		log.Fatal(err)
	}
}

func (d *description) messages(all protoreflect.MessageDescriptors) {
	for i := range all.Len() {
		m, fields := all.Get(i), []field{}
		for j := range m.Fields().Len() {
			fields = append(fields, describe(m.Fields().Get(j)))
		}
		d.Messages[string(m.FullName())] = fields
		d.messages(m.Messages())
		d.enums(m.Enums())
	}
}

func describe(f protoreflect.FieldDescriptor) field {
	found := field{string(f.Name()), int(f.Number()), f.Cardinality().String(), f.Kind().String(), "", "", f.IsMap()}
	if f.Message() != nil {
		found.Type = string(f.Message().FullName())
	}
	if f.Enum() != nil {
		found.Type = string(f.Enum().FullName())
	}
	if f.ContainingOneof() != nil {
		found.Oneof = string(f.ContainingOneof().Name())
	}
	return found
}

func (d *description) enums(all protoreflect.EnumDescriptors) {
	for i := range all.Len() {
		e, values := all.Get(i), map[string]int{}
		for j := range e.Values().Len() {
			values[string(e.Values().Get(j).Name())] = int(e.Values().Get(j).Number())
		}
		d.Enums[string(e.FullName())] = values
	}
}

func (d *description) services(all protoreflect.ServiceDescriptors) {
	for i := range all.Len() {
		s, methods := all.Get(i), map[string]method{}
		for j := range s.Methods().Len() {
			m := s.Methods().Get(j)
			methods[string(m.Name())] = method{string(m.Input().FullName()), string(m.Output().FullName())}
		}
		d.Services[string(s.FullName())] = methods
	}
}
