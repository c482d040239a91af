// Command vcsim serves a simulated vCenter for tests and demonstrations.
//
// It is govmomi's simulator with an inventory of our own, an enforced login, a
// certificate that clients can verify, and a control endpoint that injects
// faults, delays and HTTP statuses and counts calls. It prints one line of JSON
// when it is ready and ends when its standard input does, so that it never
// outlives the process that started it.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/vmware/govmomi/simulator"

	// Each of these serves one more of a vCenter's endpoints.
	_ "github.com/vmware/govmomi/pbm/simulator"
	_ "github.com/vmware/govmomi/sts/simulator"
	_ "github.com/vmware/govmomi/vapi/simulator"
	_ "github.com/vmware/govmomi/vslm/simulator"
)

type options struct {
	listen, control    string
	username, password string
	certFile, keyFile  string
	certOut            string
	fleet              int
	marks              marks
	verbose            bool
}

// marks collects repeated key=value flags.
type marks map[string]string

func (m marks) String() string { return fmt.Sprint(map[string]string(m)) }

func (m marks) Set(text string) error {
	key, value, found := strings.Cut(text, "=")
	if !found {
		return fmt.Errorf("%q is not key=value", text)
	}
	m[key] = value
	return nil
}

func parseOptions() options {
	o := options{marks: marks{}}
	flag.StringVar(&o.listen, "listen", "127.0.0.1:0", "address of the vCenter")
	flag.StringVar(&o.control, "control", "127.0.0.1:0", "address of the control endpoint")
	flag.StringVar(&o.username, "username", "administrator@vsphere.local", "the only user")
	flag.StringVar(&o.password, "password", "password-of-the-simulator", "its password")
	flag.StringVar(&o.certFile, "tls-cert", "", "certificate (PEM); made anew when empty")
	flag.StringVar(&o.keyFile, "tls-key", "", "key of the certificate (PEM)")
	flag.StringVar(&o.certOut, "cert-out", "", "also write the certificate to this file")
	flag.IntVar(&o.fleet, "vms", 0, "number of virtual machines fleet-00001, … in DC0")
	flag.Var(&o.marks, "vms-mark", "key=value in the extraConfig of each of them; may be repeated")
	flag.BoolVar(&o.verbose, "verbose", false, "log what the simulator says")
	flag.Parse()
	return o
}

// ready is what a parent reads from our standard output.
type ready struct {
	URL     string `json:"url"`
	Control string `json:"control"`
	PID     int    `json:"pid"`
	Cert    string `json:"cert"`
	Key     string `json:"key"`
	Home    string `json:"home"`
}

func main() {
	o := parseOptions()
	if !o.verbose {
		log.SetOutput(io.Discard)
	}
	home, err := os.MkdirTemp("", "vcsim-")
	if err == nil {
		// Datastores are folders below TMPDIR: all that we write goes with home.
		err = os.Setenv("TMPDIR", home)
	}
	if err == nil {
		err = run(o, home)
	}
	_ = os.RemoveAll(home)
	if err != nil {
		fmt.Fprintln(os.Stderr, "vcsim:", err)
		os.Exit(1)
	}
}

// run serves until standard input ends or a signal asks us to stop.
func run(o options, home string) error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop <- syscall.SIGTERM
	}()

	model, err := buildModel()
	if err != nil {
		return err
	}
	if err = buildFleet(model, o.fleet, o.marks); err != nil {
		return err
	}
	pair, err := loadCertificate(o, home)
	if err != nil {
		return err
	}
	wire := newWire(model)
	server := serve(model, wire, o, pair)
	control, err := serveControl(o.control, wire)
	if err != nil {
		return err
	}
	line := ready{
		// The address without the login that the simulator keeps in it.
		URL:     (&url.URL{Scheme: "https", Host: server.URL.Host, Path: server.URL.Path}).String(),
		Control: control, PID: os.Getpid(), Cert: pair.certFile, Key: pair.keyFile, Home: home,
	}
	if err = json.NewEncoder(os.Stdout).Encode(line); err != nil {
		return err
	}
	<-stop
	return nil
}

// serve starts the vCenter with our wire in front of it.
func serve(model *simulator.Model, wire *wire, o options, pair certificate) *simulator.Server {
	service := model.Service
	service.Listen = &url.URL{Host: o.listen, User: url.UserPassword(o.username, o.password)}
	service.TLS = pair.config
	service.RegisterEndpoints = true
	server := service.NewServer()
	wire.next = server.Config.Handler
	server.Config.Handler = wire
	return server
}

// loadCertificate reads the given pair or makes one below home.
func loadCertificate(o options, home string) (certificate, error) {
	pair := certificate{certFile: o.certFile, keyFile: o.keyFile}
	if pair.certFile == "" {
		pair.certFile = filepath.Join(home, "cert.pem")
		pair.keyFile = filepath.Join(home, "key.pem")
		if err := pair.generate(); err != nil {
			return pair, err
		}
	}
	if o.certOut != "" {
		pem, err := os.ReadFile(pair.certFile)
		if err == nil {
			err = os.WriteFile(o.certOut, pem, 0o600)
		}
		if err != nil {
			return pair, err
		}
	}
	return pair, pair.load()
}
