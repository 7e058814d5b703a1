// Command plugin is a legacy plugin that does nothing but count: it reads its request, notes that in the file which its
// conf names, and prints a fixed result.
package main

import (
	"encoding/json"
	"log"
	"os"
)

func main() {
	var request struct{ Conf struct{ Log string } }
	if err := json.NewDecoder(os.Stdin).Decode(&request); err != nil {
		log.Fatal(err)
	}
	runs, err := os.OpenFile(request.Conf.Log, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		log.Fatal(err)
	}
	runs.WriteString(".")
	os.Stdout.WriteString(`{"plugin":"go","version":"0.1","error":"","metadata":{"k":"v"}}`)
}
