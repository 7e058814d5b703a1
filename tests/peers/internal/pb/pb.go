// Package pb turns NRI's messages into JSON and back, with the names of the proto file.
package pb

import (
	"encoding/json"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Decode reads protojson, or Go's own JSON of the generated structs. Fields that this NRI does not know are skipped:
// what a newer runtime recorded can be played by an older one. JSON null and absence leave the message as it is.
func Decode(text json.RawMessage, into proto.Message) error {
	if len(text) == 0 || string(text) == "null" {
		return nil
	}
	return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(text, into)
}

// Encode is protojson with the proto's field names, compact. A nil message is JSON null.
func Encode(m proto.Message) (json.RawMessage, error) {
	if m == nil || !m.ProtoReflect().IsValid() {
		return json.RawMessage("null"), nil
	}
	return protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
}
