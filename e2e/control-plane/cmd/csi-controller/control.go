package main

import (
	"encoding/json"
	"net/http"
)

// controlHandler is the lab's hand on the array:
//
//	GET /state   {"attached": {volume: [node]}, "events": [...], "faults": {...}}
//	PUT /faults  {"attach": fault, "detach": fault}, which replaces all faults; {} heals
func controlHandler(a *array) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /state", func(w http.ResponseWriter, _ *http.Request) {
		a.mu.Lock()
		text, err := json.Marshal(map[string]any{"attached": a.attached, "events": a.events, "faults": a.faults})
		a.mu.Unlock()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(text)
	})
	mux.HandleFunc("PUT /faults", func(w http.ResponseWriter, r *http.Request) {
		var f faults
		decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&f); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		a.setFaults(f)
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}
