package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/vmware/govmomi/vim25/types"
)

const (
	scopeCall = "call" // the call itself answers a SOAP fault
	scopeTask = "task" // the call answers a task, which ends in the fault
)

// rule says which calls fail, and how. Whatever fails has done nothing.
type rule struct {
	Scope   string          `json:"scope"`
	Method  string          `json:"method"`
	Object  string          `json:"object,omitempty"` // name or moref value of the object called
	Fault   string          `json:"fault"`
	Fields  json.RawMessage `json:"fields,omitempty"` // merged into the fault's body
	Message string          `json:"message,omitempty"`
	Count   int             `json:"count,omitempty"` // how often; 0 is always
	Skip    int             `json:"skip,omitempty"`  // matches that pass first
	DelayMS int             `json:"delayMs,omitempty"`
	fired   int
}

// validate refuses what could never fire or never be encoded.
func (r *rule) validate() error {
	if r.Scope != scopeCall && r.Scope != scopeTask {
		return fmt.Errorf("scope is %q, neither %q nor %q", r.Scope, scopeCall, scopeTask)
	}
	if r.Scope == scopeTask && r.Message != "" {
		return errors.New("the simulator words the messages of tasks itself")
	}
	if _, found := types.TypeFunc()(r.Method); !found {
		return fmt.Errorf("no method is named %q", r.Method)
	}
	_, err := r.body(types.ManagedObjectReference{})
	return err
}

// body makes the fault, complete enough for clients that parse strictly.
func (r *rule) body(this types.ManagedObjectReference) (types.BaseMethodFault, error) {
	kind, found := types.TypeFunc()(r.Fault)
	if !found {
		return nil, fmt.Errorf("no fault is named %q", r.Fault)
	}
	value := reflect.New(kind)
	fault, ok := value.Interface().(types.BaseMethodFault)
	if !ok {
		return nil, fmt.Errorf("%q is no fault", r.Fault)
	}
	if len(r.Fields) > 0 {
		if err := types.NewJSONDecoder(bytes.NewReader(r.Fields)).Decode(fault); err != nil {
			return nil, fmt.Errorf("fields of %s: %w", r.Fault, err)
		}
	}
	complete(value.Elem(), this)
	return fault, nil
}

var refType = reflect.TypeOf(types.ManagedObjectReference{})

// refKinds are the types that required references of these names have to have.
var refKinds = map[string]string{
	"Task": "Task", "ParentTask": "Task", "Host": "HostSystem", "Vm": "VirtualMachine", "Ds": "Datastore",
}

// required makes a reference for a field that must not be empty.
func required(field string, this types.ManagedObjectReference) types.ManagedObjectReference {
	kind, known := refKinds[field]
	if !known || kind == this.Type {
		return this
	}
	return types.ManagedObjectReference{Type: kind, Value: strings.ToLower(kind) + "-0"}
}

// complete fills required references and enumerations that are empty: pyVmomi
// cannot parse a reference without a type, nor an empty enumeration.
func complete(value reflect.Value, this types.ManagedObjectReference) {
	for i := range value.NumField() {
		field, info := value.Field(i), value.Type().Field(i)
		switch {
		case info.Type == refType && field.IsZero():
			field.Set(reflect.ValueOf(required(info.Name, this)))
		case info.Type.Kind() == reflect.Struct && info.Anonymous:
			complete(field, this)
		case info.Type.Kind() == reflect.String && field.IsZero():
			if values := field.MethodByName("Values"); values.IsValid() {
				field.Set(values.Call(nil)[0].Index(0))
			}
		case info.Name == "Object" && info.Type == reflect.PointerTo(refType) && field.IsNil():
			field.Set(reflect.ValueOf(&this)) // NoPermission and its children
		}
	}
}

// rules holds the rules in the order in which they were added.
type rules struct {
	mu   sync.Mutex
	list []*rule
}

func (s *rules) add(r *rule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, r)
}

func (s *rules) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = nil
}

// take finds the first rule for a call and counts it as fired.
func (s *rules) take(scope string, c call) *rule {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.list {
		if r.Scope != scope || r.Method != c.method {
			continue
		}
		if r.Object != "" && r.Object != c.this.Value && r.Object != c.name {
			continue
		}
		if r.Skip > 0 {
			r.Skip--
			continue
		}
		if r.Count > 0 && r.fired >= r.Count {
			continue
		}
		r.fired++
		return r
	}
	return nil
}
