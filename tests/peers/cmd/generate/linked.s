// Go wants an assembly file where functions have no body; theirs is elsewhere (collect.go).
