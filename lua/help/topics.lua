-- A line for each topic of the overview; one that has none is told by its first names.
(...)._topics = {
  attention = "exact causal linear attention: the call, its methods, costs",
  bounds = "check_bound: the claims on your own tensors",
  distributed = "decoding from keys and values that are shared out",
  documents = "the five documents that the methods come from",
  files = "load and save, JSON",
  gated = "linear attention with gates and delta rules",
  gpu = "tensors and calls on an NVIDIA GPU",
  gradient = "exact gradients of the calls",
  learn = "gradients of Lua code, Adam and gradient descent",
  lowrank = "low-rank factors in place of softmax, and their errors",
  measure = "time, memory, comparisons, sweeps, tables, pages",
  options = "what the calls take beside their tensors",
  plot = "curves and heat maps",
  shell = "help, macros, the prompt",
  softmax = "softmax attention and its energy",
  tensor = "making tensors and computing with them",
}
