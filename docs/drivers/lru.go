// A cache by recency in Go, standard library only, and the driver that holds it to the specification.
//
//	go build -o lru_go docs/drivers/lru.go
//	cacheproof fuzz lru --target "exec:./lru_go"
package main

import (
	"bufio"
	"container/list"
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// The implementation under test: it knows nothing of the protocol.

type entry struct{ key, size int64 }

type cache struct {
	capacity, used, hits, total int64
	reported                    [2]int64
	order                       *list.List // of entries, oldest first
	places                      map[int64]*list.Element
}

func newCache(capacity int64) *cache {
	return &cache{capacity: capacity, order: list.New(), places: map[int64]*list.Element{}}
}

func (c *cache) contains(key int64) bool { return c.places[key] != nil }

func (c *cache) touch(key int64) bool {
	place := c.places[key]
	if place != nil {
		c.order.MoveToBack(place)
	}
	return place != nil
}

func (c *cache) get(key int64) bool {
	known := c.touch(key)
	if known {
		c.hits++
	}
	c.total++
	return known
}

func (c *cache) pop(key int64) bool {
	place := c.places[key]
	if place == nil {
		return false
	}
	c.used -= c.order.Remove(place).(entry).size
	delete(c.places, key)
	return true
}

func (c *cache) put(key, size int64) bool {
	if size > c.capacity {
		return false
	}
	for c.used-c.size(key)+size > c.capacity {
		c.pop(c.order.Front().Value.(entry).key)
	}
	c.pop(key)
	c.places[key] = c.order.PushBack(entry{key, size})
	c.used += size
	return true
}

func (c *cache) size(key int64) int64 {
	if place := c.places[key]; place != nil {
		return place.Value.(entry).size
	}
	return 0
}

func (c *cache) stat() []int64 {
	since := []int64{c.hits - c.reported[0], c.total - c.reported[1]}
	c.reported = [2]int64{c.hits, c.total}
	return since
}

// The driver: what it has is said in hello; pins are not there, so they are not asked for.

type message map[string]any
type request map[string]json.RawMessage

var errNotUnderstood = errors.New("not understood")

var operations = []string{"contains", "lookup", "get", "put", "touch", "pop", "clear", "stat"}

func hello() message {
	features := []string{}
	for _, name := range operations {
		features = append(features, "lru/operation/"+name)
	}
	return message{
		"answer": "hello", "protocol": "1.0", "spec": "0.1", "implementation": "docs/drivers/lru.go",
		"components": []string{"lru"}, "features": features,
	}
}

// field reads one value of a request; it panics if it is missing or of another type.
func field[T int64 | string](asked request, name string) (value T) {
	if raw := asked[name]; string(raw) == "null" || json.Unmarshal(raw, &value) != nil {
		panic(errNotUnderstood)
	}
	return value
}

func (c *cache) shown(answer message) message {
	keys, sizes := []int64{}, []int64{}
	for place := c.order.Front(); place != nil; place = place.Next() {
		keys, sizes = append(keys, place.Value.(entry).key), append(sizes, place.Value.(entry).size)
	}
	for name, value := range (message{"order": keys, "sizes": sizes, "used": c.used, "hits": c.hits, "total": c.total}) {
		answer[name] = value
	}
	return answer
}

func pick(yes bool, right, wrong string) string {
	if yes {
		return right
	}
	return wrong
}

func (c *cache) call(asked request) message {
	op, key, values, code := field[string](asked, "op"), int64(0), []int64{}, "unsupported"
	if op != "clear" && op != "stat" {
		key = field[int64](asked, "key")
	}
	switch op {
	case "put":
		code = pick(c.put(key, field[int64](asked, "size")), "done", "too_large")
	case "get":
		code = pick(c.get(key), "hit", "miss")
	case "lookup":
		code = pick(c.contains(key) && c.get(key), "hit", "absent")
	case "contains":
		code = pick(c.contains(key), "hit", "miss")
	case "touch":
		code = pick(c.touch(key), "done", "absent")
	case "pop":
		code = pick(c.pop(key), "done", "absent")
	case "clear":
		*c, code = *newCache(c.capacity), "done"
	case "stat":
		values, code = c.stat(), "done"
	}
	return c.shown(message{"answer": "outcome", "code": code, "values": values})
}

func (c *cache) answer(line []byte) (answer message) {
	defer func() {
		if failed := recover(); failed == errNotUnderstood {
			answer = message{"answer": "error", "error": "not_a_message", "text": "not understood"}
		} else if failed != nil {
			panic(failed) // a bug of the cache: the report shows the panic
		}
	}()
	asked := request{}
	if json.Unmarshal(line, &asked) != nil {
		panic(errNotUnderstood)
	}
	switch field[string](asked, "do") {
	case "hello":
		return hello()
	case "apply":
		return c.call(asked)
	case "bye":
		os.Exit(0)
	case "init":
		*c = *newCache(field[int64](asked, "capacity"))
	case "reset":
		*c = *newCache(c.capacity)
	}
	return c.shown(message{"answer": "state"})
}

func main() {
	held, input := newCache(0), bufio.NewReader(os.Stdin)
	for line, err := input.ReadBytes('\n'); err == nil; line, err = input.ReadBytes('\n') {
		text, _ := json.Marshal(held.answer(line))
		fmt.Println(string(text)) // not buffered: the other side waits for it
	}
}
