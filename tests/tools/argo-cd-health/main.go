// What does Argo CD conclude from SparkApplications? These are its own rules, in the interpreter that it runs them in (util/lua/lua.go).
// Standard input is a list of applications; standard output, a line for the health of each.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"

	customizations "github.com/argoproj/argo-cd/v3/resource_customizations"
	lua "github.com/yuin/gopher-lua"
)

func main() {
	rules, err := customizations.Embedded.ReadFile("sparkoperator.k8s.io/SparkApplication/health.lua")
	if err != nil {
		log.Fatal(err)
	}
	var applications []any
	if err := json.NewDecoder(os.Stdin).Decode(&applications); err != nil {
		log.Fatal(err)
	}
	for i, application := range applications {
		health, err := healthOf(application, string(rules))
		if err != nil {
			log.Fatalf("%d: %v", i, err)
		}
		fmt.Println(health)
	}
}

func healthOf(application any, rules string) (string, error) {
	state := lua.NewState()
	defer state.Close()
	state.SetGlobal("obj", value(state, application))
	if err := state.DoString(rules); err != nil {
		return "", err
	}
	returned := state.Get(-1)
	health, ok := returned.(*lua.LTable)
	if !ok {
		return "", fmt.Errorf("the rules return %v", returned)
	}
	return health.RawGetString("status").String(), nil
}

func value(state *lua.LState, of any) lua.LValue {
	switch of := of.(type) {
	case bool:
		return lua.LBool(of)
	case float64:
		return lua.LNumber(of)
	case string:
		return lua.LString(of)
	case []any:
		list := state.NewTable()
		for _, item := range of {
			list.Append(value(state, item))
		}
		return list
	case map[string]any:
		table := state.NewTable()
		for name, field := range of {
			table.RawSetString(name, value(state, field))
		}
		return table
	}
	return lua.LNil
}
