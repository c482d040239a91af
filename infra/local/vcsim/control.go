package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// serveControl starts the control endpoint and gives its address.
//
//	POST   /faults    a rule (see the type); DELETE removes all rules
//	POST   /delays    {"CloneVm": 2000, "PowerOn": 800, "Login": 100} in ms
//	POST   /status    {"code": 503, "count": 2} answers the next calls with it
//	GET    /calls     {"total": 3, "methods": {"Login": 1, ...}}; DELETE resets
//	POST   /denied    ["Network.Assign"] are the privileges that nobody has
//	GET    /sessions  {"count": 1, "users": ["..."]}
//
// A delay is for a task (CloneVm, PowerOn, PowerOff, ReconfigVm, Destroy,
// CreateVirtualDisk, ...: the task runs so long) or, under the method's own
// name (CloneVM_Task, Login), for the call itself.
func serveControl(address string, w *wire) (string, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return "", err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /faults", accept(w.addRule))
	mux.HandleFunc("DELETE /faults", func(rw http.ResponseWriter, _ *http.Request) {
		w.rules.clear()
		rw.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("POST /delays", accept(w.setDelays))
	mux.HandleFunc("POST /status", accept(w.setStatus))
	mux.HandleFunc("POST /denied", accept(w.privileges.deny))
	mux.HandleFunc("GET /calls", answer(w.callCounts))
	mux.HandleFunc("DELETE /calls", func(rw http.ResponseWriter, _ *http.Request) {
		w.resetCalls()
		rw.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /sessions", answer(w.sessions))
	go func() { _ = http.Serve(listener, mux) }()
	return "http://" + listener.Addr().String(), nil
}

// accept decodes a request strictly, so that a misspelt field is no silent no-op.
func accept[T any](use func(T) error) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		var value T
		decoder := json.NewDecoder(r.Body)
		decoder.DisallowUnknownFields()
		err := decoder.Decode(&value)
		if err == nil {
			err = use(value)
		}
		if err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		rw.WriteHeader(http.StatusNoContent)
	}
}

func answer[T any](get func() (T, error)) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		value, err := get()
		if err != nil {
			http.Error(rw, err.Error(), http.StatusInternalServerError)
			return
		}
		rw.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(rw).Encode(value)
	}
}

func (w *wire) addRule(r rule) error {
	if err := r.validate(); err != nil {
		return err
	}
	w.rules.add(&r)
	return nil
}

// setDelays adds to the delays; 0 ends one.
func (w *wire) setDelays(delays map[string]int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	tasks := maps.Clone(simulator.TaskDelay.MethodDelay)
	for name, ms := range delays {
		if ms < 0 {
			return fmt.Errorf("delay of %s is negative", name)
		}
		if _, isMethod := types.TypeFunc()(name); isMethod {
			w.delays[name] = ms
		} else {
			tasks[name] = ms
		}
	}
	// The simulator reads the map without a lock: it is replaced, never changed.
	simulator.TaskDelay.MethodDelay = tasks
	return nil
}

type statusRequest struct {
	Code  int `json:"code"`
	Count int `json:"count"`
}

func (w *wire) setStatus(s statusRequest) error {
	if s.Code < 400 || s.Code > 599 {
		return fmt.Errorf("%d is no status of a failure", s.Code)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status, w.statusN = s.Code, max(s.Count, 1)
	return nil
}

type callCounts struct {
	Total   int            `json:"total"`
	Methods map[string]int `json:"methods"`
}

func (w *wire) callCounts() (callCounts, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	counts := callCounts{Methods: maps.Clone(w.calls)}
	for _, n := range counts.Methods {
		counts.Total += n
	}
	return counts, nil
}

func (w *wire) resetCalls() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.calls)
}

type sessionList struct {
	Count int      `json:"count"`
	Users []string `json:"users"`
}

// sessions reads the session list in-process, which needs no session of its own.
func (w *wire) sessions() (sessionList, error) {
	ctx := context.Background()
	list := sessionList{Users: []string{}}
	client, err := vim25.NewClient(ctx, w.model.Service)
	if err != nil {
		return list, err
	}
	response, err := methods.RetrieveProperties(ctx, client, &types.RetrieveProperties{
		This: client.ServiceContent.PropertyCollector,
		SpecSet: []types.PropertyFilterSpec{{
			PropSet:   []types.PropertySpec{{Type: "SessionManager", PathSet: []string{"sessionList"}}},
			ObjectSet: []types.ObjectSpec{{Obj: *client.ServiceContent.SessionManager}},
		}},
	})
	if err != nil {
		return list, err
	}
	var manager mo.SessionManager
	if err = mo.LoadObjectContent(response.Returnval, &manager); err != nil {
		return list, err
	}
	for _, session := range manager.SessionList {
		list.Users = append(list.Users, strings.TrimSpace(session.UserName))
	}
	list.Count = len(list.Users)
	return list, nil
}
