package main

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
)

// op is one step of the script; each uses the fields it needs.
type op struct {
	Op   string `json:"op"`
	Host string `json:"host"`

	// open
	PluginDir           string `json:"plugin_dir"` // launch what is in there; none: nothing is launched
	DropInDir           string `json:"drop_in_dir"`
	Socket              string `json:"socket"` // listen for external plugins; none: they are not accepted
	Name                string `json:"name"`
	Version             string `json:"version"`
	RegistrationTimeout int    `json:"registration_timeout_ms"`
	RequestTimeout      int    `json:"request_timeout_ms"` // limit takes it, too

	// state: what Synchronize is going to tell, recorded and made up. Bytes: that large is the message to be.
	Pods           []json.RawMessage `json:"pods"`
	Containers     []json.RawMessage `json:"containers"`
	MakePods       int               `json:"make_pods"`
	MakeContainers int               `json:"make_containers"`
	Bytes          int               `json:"bytes"`

	// wait, for another process than those
	Plugin  string  `json:"plugin"`
	Not     []int64 `json:"not"`
	Timeout int     `json:"timeout_ms"`

	// event. Bytes: the ttRPC message without its header is made that long, by an annotation of the pod.
	Event     string          `json:"event"`
	Pod       json.RawMessage `json:"pod"`
	Container json.RawMessage `json:"container"`
	Resources json.RawMessage `json:"resources"`
	Overhead  json.RawMessage `json:"overhead"`
	Repeat    int             `json:"repeat"`
	Parallel  int             `json:"parallel"`

	// compare, pods: the hosts are played to in turn, Settle before each turn
	Hosts  []string `json:"hosts"`
	Settle int      `json:"settle_ms"`
	Events []op     `json:"events"` // of one life: event, pod, container
	// compare: how many lives are one turn, and what lies before each event
	Block int `json:"block"`
	Pause int `json:"pause_ms"`
	// pods
	Count int  `json:"count"`
	After []op `json:"afterwards"` // the end of each life, of which no time is taken
}

// reply is what an op came to. Plugins are those connected afterwards.
type reply struct {
	Error   string          `json:"error"`
	Plugins []plugin        `json:"plugins"`
	Micros  float64         `json:"us"`
	Adjust  json.RawMessage `json:"adjust,omitempty"`
	Update  json.RawMessage `json:"update,omitempty"`

	Errors  []string             `json:"errors,omitempty"`  // event with repeat or parallel: of each that failed
	Samples map[string][]float64 `json:"samples,omitempty"` // compare: microseconds of every event, pods: of every pod, by host
	Changes map[string]int       `json:"changes,omitempty"` // compare: how many events were answered with an adjustment
	Calls   []call               `json:"calls,omitempty"`   // calls: what went over the wire since the last time
	Updates []json.RawMessage    `json:"updates,omitempty"` // updates: unsolicited ones since the last time
}

var ops = map[string]func(map[string]*host, *op) (*reply, error){
	"open":    opOpen,
	"limit":   opLimit,
	"state":   onHost((*host).setState),
	"start":   onHost((*host).start),
	"wait":    onHost((*host).wait),
	"plugins": onHost(func(*host, *op) (*reply, error) { return nil, nil }),
	"event":   onHost((*host).event),
	"calls":   onHost((*host).takeCalls),
	"updates": onHost((*host).takeUpdates),
	"stop":    opStop,
	"compare": opCompare,
	"pods":    opPods,
}

func onHost(run func(*host, *op) (*reply, error)) func(map[string]*host, *op) (*reply, error) {
	return func(hosts map[string]*host, o *op) (*reply, error) {
		h := hosts[o.Host]
		if h == nil {
			return nil, fmt.Errorf("no such host: %q", o.Host)
		}
		return run(h, o)
	}
}

func opOpen(hosts map[string]*host, o *op) (*reply, error) {
	h, err := open(o)
	if err != nil {
		return nil, err
	}
	hosts[o.Host] = h
	return nil, nil
}

// opLimit changes how long requests to come may take, in all hosts.
func opLimit(_ map[string]*host, o *op) (*reply, error) {
	adaptation.SetPluginRequestTimeout(timeout(o.RequestTimeout, adaptation.DefaultPluginRequestTimeout))
	return nil, nil
}

func opStop(hosts map[string]*host, o *op) (*reply, error) {
	if h := hosts[o.Host]; h != nil {
		h.adaptation.Stop()
		delete(hosts, o.Host)
	}
	return nil, nil
}

// event plays one event, or Repeat of them in Parallel goroutines (the adaptation has a lock for all of them).
func (h *host) event(o *op) (*reply, error) {
	e, err := newEvent(h, o)
	if err != nil {
		return nil, err
	}
	if o.Repeat == 0 && o.Parallel == 0 {
		return e.play()
	}
	r := &reply{}
	var lock sync.Mutex
	var wait sync.WaitGroup
	for range max(o.Parallel, 1) {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for range max(o.Repeat, 1) {
				if _, err := e.play(); err != nil {
					lock.Lock()
					r.Errors = append(r.Errors, err.Error())
					lock.Unlock()
				}
			}
		}()
	}
	begin := time.Now()
	wait.Wait()
	r.Micros = micros(begin)
	return r, nil
}

func micros(since time.Time) float64 { return float64(time.Since(since).Nanoseconds()) / 1e3 }
