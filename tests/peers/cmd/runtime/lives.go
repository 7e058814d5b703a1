package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// lives numbers all that are played: none has the ids of another.
var lives int

// turns plays to each host in turn.
func turns(hosts map[string]*host, o *op, turn func(*host, string) error) error {
	for _, name := range o.Hosts {
		if hosts[name] == nil {
			return fmt.Errorf("no such host: %q", name)
		}
		time.Sleep(time.Duration(o.Settle) * time.Millisecond)
		if err := turn(hosts[name], name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func newLife(h *host, ops []op) ([]*event, error) {
	lives++
	events := []*event{}
	for i := range ops {
		e, err := newEvent(h, &ops[i])
		if err != nil {
			return nil, err
		}
		e.as(lives)
		events = append(events, e)
	}
	return events, nil
}

// opCompare plays the same lives to several hosts in turn, one life after the other, and notes how long each event took.
func opCompare(hosts map[string]*host, o *op) (*reply, error) {
	r := &reply{Samples: map[string][]float64{}, Changes: map[string]int{}}
	return r, turns(hosts, o, func(h *host, name string) error {
		for range max(o.Block, 1) {
			life, err := newLife(h, o.Events)
			if err != nil {
				return err
			}
			for _, e := range life {
				time.Sleep(time.Duration(o.Pause) * time.Millisecond)
				answer, err := e.play()
				if err != nil {
					return err
				}
				r.Samples[name] = append(r.Samples[name], answer.Micros)
				if adjusts(answer.Adjust) {
					r.Changes[name]++
				}
			}
		}
		return nil
	})
}

// adjusts tells whether an adjustment has anything in it: without plugins' wishes the adaptation answers empty objects.
func adjusts(text json.RawMessage) bool {
	fields := map[string]json.RawMessage{}
	if len(text) == 0 || string(text) == "null" {
		return false
	}
	if json.Unmarshal(text, &fields) != nil {
		return true // no object
	}
	return slices.ContainsFunc(slices.Collect(maps.Values(fields)), adjusts)
}

// opPods starts Count pods at once, each in a goroutine of its own, and notes how long each took until it ran. Their ends
// follow one by one.
func opPods(hosts map[string]*host, o *op) (*reply, error) {
	r := &reply{Samples: map[string][]float64{}}
	return r, turns(hosts, o, func(h *host, name string) error {
		pods, split := [][]*event{}, len(o.Events)
		for range o.Count {
			life, err := newLife(h, slices.Concat(o.Events, o.After))
			if err != nil {
				return err
			}
			pods = append(pods, life)
		}
		took, failed := make([]float64, o.Count), make([]error, o.Count)
		var wait sync.WaitGroup
		begin := time.Now()
		for i, life := range pods {
			wait.Add(1)
			go func() {
				defer wait.Done()
				failed[i] = playAll(life[:split])
				took[i] = micros(begin)
			}()
		}
		wait.Wait()
		for i, life := range pods {
			if failed[i] == nil {
				failed[i] = playAll(life[split:])
			}
			if failed[i] != nil {
				return failed[i]
			}
		}
		r.Samples[name] = append(r.Samples[name], took...)
		return nil
	})
}

func playAll(events []*event) error {
	for _, e := range events {
		if _, err := e.play(); err != nil {
			return err
		}
	}
	return nil
}
