-- leet, Table 6: latency of one layer, batch 16, with exponential decay, by method and length.
--
--   causeway experiments/leet/table6.lua              up to 2048 tokens, some minutes
--   causeway experiments/leet/table6.lua --quick      up to 512 tokens, about a minute
--   causeway experiments/leet/table6.lua --full       all of it, eleven minutes on two cores
--
--   --lengths 128,…,100000          the printed ones
--   --heads 32 --width 128          of the layer, rank and width of a head, Float32
--   --seconds 0.3                   spent on a cell, at least three calls; --quick and --full have their own
--   --timeout 30                    seconds after which a cell is given up; likewise
--   --python python3                the Python that is asked for NumPy and PyTorch, controls beside Vanilla
--
-- Printed: an A6000, means of 15 runs. Here: this machine, medians with quartiles. Cdotp_torch and FA_torch, which are
-- PyTorch there, are the same sums without blocks here. A cell is a number, OOM, timeout or the reason why it has none.
local folder = arg[0]:match("^(.*)/[^/]*$") or "."
dofile(folder .. "/../lib/latency.lua").printed_table(arg, "table6", 16, true)
