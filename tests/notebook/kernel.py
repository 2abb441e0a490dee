"""The kernel as a front end sees it: every test of jupyter_kernel_test, and what that does not ask.

    kernel.py PROGRAM    the causeway beside which causeway-kernel stands
"""
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import unittest

import jupyter_kernel_test

folder = tempfile.mkdtemp()
os.environ["JUPYTER_DATA_DIR"] = folder
here = os.path.dirname(os.path.abspath(__file__))


def install_kernel(program):
    place = os.path.join(folder, "kernels", "causeway")
    os.makedirs(place)
    with open(os.path.join(here, "..", "..", "lua", "notebook", "kernel.json")) as template:
        specification = template.read().replace("@CAUSEWAY@", os.path.abspath(program))
    with open(os.path.join(place, "kernel.json"), "w") as file:
        file.write(specification)


class KernelTests(jupyter_kernel_test.KernelTests):
    kernel_name = "causeway"
    language_name = "lua"
    file_extension = ".lua"
    code_hello_world = 'print("hello, world")'
    code_stderr = 'io.stderr:write("trouble\\n")'
    completion_samples = [
        {"text": "softmax_attention_g", "matches": ["softmax_attention_grad"]},
        {"text": "x = 1\nlinear_attention_st", "matches": ["linear_attention_step"]},
        {"text": "?linear_attention_st", "matches": ["linear_attention_step"]},
        {"text": 'g = "γ"; softmax_attention_g', "matches": ["softmax_attention_grad"]},
    ]
    complete_code_samples = ["1 + 1", "x = 1\ny = 2", "for i = 1, 3 do print(i) end", "?randn", ";ls", "@time 1"]
    incomplete_code_samples = ["for i = 1, 3 do", "f(1,", "x = {1, 2,", "function f()\n  return 1"]
    invalid_code_samples = ["1 +* 2", "end", "x = = 3"]
    code_page_something = "?randn"
    code_generate_error = 'error("as asked")'
    code_execute_result = [
        {"code": "1 + 2", "result": "3"},
        {"code": "1 + 3", "result": "4"},
        {"code": '"a" .. "b"', "result": '"ab"'},
        {"code": "tensor{{1, 2}, {3, 4}}", "mime": "text/html"},
    ]
    code_display_data = [
        {"code": "display(tensor{1, 2})", "mime": "text/html"},
        {"code": "display(plot({1, 2, 3}, {1, 4, 9}))", "mime": "image/svg+xml"},
    ]
    code_history_pattern = "1?+?2"
    supported_history_operations = ("tail", "range", "search")
    code_inspect_sample = "softmax_attention("
    code_clear_output = "clear_output()"

    def outputs(self, code, kind=None, key=None, timeout=15):
        """What the cell sends: messages, or their field `key` where they are of that kind."""
        self.flush_channels()
        self.reply, messages = self.execute_helper(code, timeout=timeout)
        if kind is None:
            return messages
        return [message["content"][key] for message in messages if message["msg_type"] == kind]

    def test_values_are_shown_in_order_and_the_last_is_the_result(self):
        kinds = [m["msg_type"] for m in self.outputs('print("a")\n1\nprint("b")\n2')]
        self.assertEqual(kinds, ["stream", "display_data", "stream", "execute_result"])
        self.assertEqual([m["msg_type"] for m in self.outputs("1;")], [])

    def test_an_error_is_one_sentence_with_its_traceback_below(self):
        self.outputs("function f() return randn(-1) end")
        lines = self.outputs("f()", "error", "traceback")[0]
        self.assertIn("error:", lines[0])
        self.assertIn("randn", lines[0])
        self.assertTrue(any("function 'f'" in line for line in lines[1:]), lines)
        self.assertEqual(self.reply["content"]["ename"], "bad argument")

    def test_streams_come_while_the_cell_runs(self):
        self.flush_channels()
        self.kc.execute('print("first") io.stdout:flush() local t = clock() while clock() - t < 3 do end')
        begun = time.monotonic()
        while True:
            message = self.kc.get_iopub_msg(timeout=15)
            if message["msg_type"] == "stream":
                break
        self.assertLess(time.monotonic() - begun, 2)
        self.kc.get_shell_msg(timeout=15)

    def test_text_of_several_bytes_and_of_programs(self):
        text = "".join(self.outputs('print(("γ"):rep(50000))', "stream", "text"))
        self.assertEqual(text, "γ" * 50000 + "\n")
        self.assertEqual(self.outputs(";echo from the system", "stream", "text"), ["from the system\n"])
        self.assertEqual(self.outputs('io.write("\\xff")', "stream", "text"), ["\N{REPLACEMENT CHARACTER}"])

    def test_a_progress_bar_updates_in_place(self):
        messages = self.outputs("for i = 1, 3 do causeway._status('step ' .. i) "
                                "local t = clock() while clock() - t < 0.1 do end end causeway._status()")
        self.assertEqual([m["msg_type"] for m in messages], ["display_data"] + 3 * ["update_display_data"])
        self.assertEqual(len({m["content"]["transient"]["display_id"] for m in messages}), 1)
        self.assertEqual(messages[-1]["content"]["data"]["text/plain"], "")

    def test_macros(self):
        self.assertIn("seconds", self.outputs("@time 1 + 1", "display_data", "data")[0]["text/plain"])
        self.assertIn("sample", str(self.outputs("@btime 1 + 1")))

    def interrupt(self, code):
        """Interrupts the cell after a second; the seconds until its reply."""
        self.flush_channels()
        self.kc.execute(code)
        time.sleep(1)
        begun = time.monotonic()
        self.km.interrupt_kernel()
        reply = self.kc.get_shell_msg(timeout=15)["content"]
        self.assertEqual((reply["status"], reply["ename"]), ("error", "interrupted"))
        return time.monotonic() - begun

    def test_interrupts_stop_cells_and_keep_the_session(self):
        self.outputs("kept = 42")
        for code in ["while true do end", "A = randn(3000, 3000) for i = 1, 1000 do A = A * A / 1e3 end",
                     "Q = randn(1, 4, 20000, 64) for i = 1, 100 do softmax_attention(Q, Q, Q) end"]:
            with self.subTest(code=code):
                self.assertLess(self.interrupt(code), 5)
                self.assertEqual(self.outputs("kept", "execute_result", "data")[0]["text/plain"], "42")

    def test_an_interrupt_between_two_cells_stops_neither(self):
        self.km.interrupt_kernel()
        time.sleep(0.2)
        self.assertEqual(self.outputs("6 * 7", "execute_result", "data")[0]["text/plain"], "42")

    def test_cells_behind_a_failed_one_are_aborted_and_said_to_be_done(self):
        self.flush_channels()
        self.kc.execute("local t = clock() while clock() - t < 0.5 do end error('as asked')", stop_on_error=True)
        behind = [self.kc.execute("1"), self.kc.execute("2")]
        status = [self.kc.get_shell_msg(timeout=15)["content"]["status"] for _ in range(3)]
        self.assertEqual(status, ["error", "aborted", "aborted"])
        idle = set()
        while not idle.issuperset(behind):
            message = self.kc.get_iopub_msg(timeout=15)
            if message["content"].get("execution_state") == "idle":
                idle.add(message["parent_header"]["msg_id"])
        self.assertEqual(self.outputs("3", "execute_result", "data")[0]["text/plain"], "3")

    def test_a_forged_message_is_not_run(self):
        forger = self.km.client()
        forger.session.key = b"another key"
        forger.start_channels()
        forger.execute("forged = true")
        time.sleep(0.5)
        forger.stop_channels()
        self.assertEqual(self.outputs("rawget(_G, 'forged')", "execute_result", "data")[0]["text/plain"], "nil")

    def test_expressions_of_the_front_end(self):
        self.flush_channels()
        self.kc.execute("x = 5", user_expressions={"twice": "2 * x", "wrong": "nothing.at.all"})
        values = self.kc.get_shell_msg(timeout=15)["content"]["user_expressions"]
        self.assertEqual(values["twice"]["data"]["text/plain"], "10")
        self.assertEqual(values["wrong"]["status"], "error")


class ShutdownTests(unittest.TestCase):
    def test_the_kernel_ends_when_asked_while_a_cell_runs(self):
        manager, client = jupyter_kernel_test.start_new_kernel(kernel_name="causeway")
        client.execute("while true do end")
        time.sleep(1)
        begun = time.monotonic()
        client.shutdown()
        manager.provisioner.process.wait(10) if hasattr(manager.provisioner, "process") else time.sleep(3)
        self.assertLess(time.monotonic() - begun, 5)
        client.stop_channels()
        manager.cleanup_resources()


if __name__ == "__main__":
    install_kernel(sys.argv.pop(1))
    result = unittest.main(exit=False, verbosity=2).result
    shutil.rmtree(folder)
    wrong = result.failures or result.errors or result.skipped
    print(f"{result.testsRun} tests, {len(result.skipped)} skipped")
    sys.exit(1 if wrong else 0)
