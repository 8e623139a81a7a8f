"""Networks that give every action of a scene a value, or act and criticise. Those that learn are torch modules; `acting` needs no torch."""
