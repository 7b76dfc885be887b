// Does the API server make of an object and a JSON patch what we think that it makes? This is the library that it uses
// (apiserver/pkg/admission/plugin/webhook/mutating/dispatcher.go). Standard input is a list of documents, patches and what comes of
// them; standard output, one line for each of which something else comes, and at the end how many there were.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"reflect"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

type patching struct {
	Document, Patch, Patched json.RawMessage
}

func main() {
	var patchings []patching
	if err := json.NewDecoder(os.Stdin).Decode(&patchings); err != nil {
		log.Fatal(err)
	}
	for i, p := range patchings {
		if err := p.check(); err != nil {
			fmt.Printf("%d: %v\n", i, err)
		}
	}
	fmt.Printf("%d patches applied\n", len(patchings))
}

func (p patching) check() error {
	patch, err := jsonpatch.DecodePatch(p.Patch)
	if err != nil {
		return err
	}
	patched, err := patch.Apply(p.Document)
	if err != nil {
		return err
	}
	var made, expected any
	if err := json.Unmarshal(patched, &made); err != nil {
		return err
	}
	if err := json.Unmarshal(p.Patched, &expected); err != nil {
		return err
	}
	if !reflect.DeepEqual(made, expected) {
		return fmt.Errorf("%s instead of %s", patched, p.Patched)
	}
	return nil
}
