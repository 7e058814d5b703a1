// Command plugin is a legacy plugin that does nothing: it reads its request and prints a fixed result.
package main

import (
	"io"
	"os"
)

func main() {
	io.Copy(io.Discard, os.Stdin)
	os.Stdout.WriteString(`{"plugin":"go","version":"0.1","error":"","metadata":{"k":"v"}}`)
}
