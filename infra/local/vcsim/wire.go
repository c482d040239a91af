package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
	"github.com/vmware/govmomi/vim25/xml"
)

// call is what a SOAP request asks for.
type call struct {
	method string
	this   types.ManagedObjectReference
	name   string // of the object, if it has one
}

// wire stands before the simulator and sees every request.
type wire struct {
	next  http.Handler
	model *simulator.Model
	rules rules
	tasks *tasks

	privileges *privileges

	mu      sync.Mutex
	calls   map[string]int
	delays  map[string]int // milliseconds
	status  int
	statusN int
}

func newWire(model *simulator.Model) *wire {
	w := &wire{model: model, calls: map[string]int{}, delays: map[string]int{}, tasks: newTasks(model)}
	model.Map().AddHandler(w.tasks)
	keepDiskUUIDs(model, w.tasks)
	keepFields(model)
	keepVApp(model, w.tasks)
	w.privileges = newPrivileges(model)
	return w
}

func (w *wire) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || !strings.HasPrefix(r.URL.Path, "/sdk") {
		w.next.ServeHTTP(rw, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	c, err := parseCall(body)
	if err != nil {
		w.next.ServeHTTP(rw, r) // it says what is wrong better than we could
		return
	}
	if object := w.model.Map().Get(c.this); object != nil {
		c.name = nameOf(object)
	}
	if w.answerEarly(rw, c) {
		return
	}
	if rule := w.rules.take(scopeTask, c); rule != nil {
		w.tasks.expect(c, fail(rule, c.this))
	}
	w.next.ServeHTTP(rw, r)
}

// answerEarly counts and delays a call, and answers it when a rule says so.
func (w *wire) answerEarly(rw http.ResponseWriter, c call) bool {
	status, delay := w.count(c.method)
	time.Sleep(time.Duration(delay) * time.Millisecond)
	if status != 0 {
		rw.WriteHeader(status)
		return true
	}
	rule := w.rules.take(scopeCall, c)
	if rule == nil {
		return false
	}
	time.Sleep(time.Duration(rule.DelayMS) * time.Millisecond)
	fault, err := rule.body(c.this)
	if err == nil {
		err = writeFault(rw, rule.Message, fault)
	}
	if err != nil {
		http.Error(rw, err.Error(), http.StatusInternalServerError)
	}
	return true
}

// count adds one to the calls of a method; it gives the HTTP status to answer,
// if one is due, and the delay.
func (w *wire) count(method string) (status, delay int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[method]++
	if w.statusN > 0 {
		w.statusN--
		status = w.status
	}
	return status, w.delays[method]
}

// parseCall reads the method and its object from a SOAP envelope.
func parseCall(body []byte) (call, error) {
	var c call
	decoder := xml.NewDecoder(bytes.NewReader(body))
	inBody := false
	for {
		token, err := decoder.Token()
		if err != nil {
			return c, err
		}
		start, ok := token.(xml.StartElement)
		switch {
		case !ok:
		case !inBody:
			inBody = start.Name.Local == "Body"
		case c.method == "":
			c.method = start.Name.Local
		case start.Name.Local == "_this":
			err = decoder.DecodeElement(&c.this, &start)
			return c, err
		default:
			return c, errors.New("no _this in the request")
		}
	}
}

// faultBody encodes a fault as the product does: <XFault xsi:type="X">.
type faultBody struct{ fault types.BaseMethodFault }

func (b faultBody) MarshalXML(e *xml.Encoder, start xml.StartElement) error {
	kind := reflect.TypeOf(b.fault).Elem().Name()
	start.Name = xml.Name{Local: kind + "Fault"}
	start.Attr = []xml.Attr{
		{Name: xml.Name{Local: "xmlns"}, Value: "urn:vim25"},
		{Name: xml.Name{Local: "xsi:type"}, Value: kind},
	}
	return e.EncodeElement(b.fault, start)
}

const faultEnvelope = xml.Header + `<soapenv:Envelope` +
	` xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/"` +
	` xmlns:xsd="http://www.w3.org/2001/XMLSchema"` +
	` xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">` +
	`<soapenv:Body><soapenv:Fault><faultcode>ServerFaultCode</faultcode>` +
	`<faultstring>%s</faultstring><detail>%s</detail></soapenv:Fault></soapenv:Body></soapenv:Envelope>`

func writeFault(rw http.ResponseWriter, message string, fault types.BaseMethodFault) error {
	detail, err := xml.Marshal(faultBody{fault})
	if err != nil {
		return err
	}
	if message == "" {
		message = "injected " + reflect.TypeOf(fault).Elem().Name()
	}
	var text bytes.Buffer
	if err = xml.EscapeText(&text, []byte(message)); err != nil {
		return err
	}
	rw.Header().Set("Content-Type", "text/xml; charset=utf-8")
	rw.WriteHeader(http.StatusInternalServerError)
	_, err = fmt.Fprintf(rw, faultEnvelope, text.String(), detail)
	return err
}
