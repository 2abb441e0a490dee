"""The kernel as a front end sees it: every test of jupyter_kernel_test, and what that does not ask.

    kernel.py PROGRAM    the causeway beside which causeway-kernel stands
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import jupyter_kernel_test
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError

patience = 60  # seconds for an answer, which on a busy machine may take long

folder = tempfile.mkdtemp()
os.environ["JUPYTER_DATA_DIR"] = folder
os.environ["XDG_STATE_HOME"] = os.path.join(folder, "state")  # the history of this test, not that of its user
os.makedirs(os.path.join(folder, "state", "causeway"))
with open(os.path.join(folder, "state", "causeway", "history"), "w") as earlier:
    earlier.write("an_earlier_entry = 1\n")
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

    def outputs(self, code, kind=None, key=None, timeout=patience):
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

    def test_an_error_is_one_sentence_with_its_traceback_folded_below(self):
        self.outputs("function f() return randn(-1) end")
        error, details = self.outputs("f()")
        self.assertEqual(len(error["content"]["traceback"]), 1)
        self.assertIn("error:", error["content"]["traceback"][0])
        self.assertIn("randn", error["content"]["traceback"][0])
        self.assertIn("<details>", details["content"]["data"]["text/html"])
        self.assertIn("function 'f'", details["content"]["data"]["text/plain"])
        self.assertEqual(self.reply["content"]["ename"], "bad argument")
        self.assertTrue(any("function 'f'" in line for line in self.reply["content"]["traceback"]))

    def test_streams_come_while_the_cell_runs(self):
        self.flush_channels()
        self.kc.execute('print("first") io.stdout:flush() local t = clock() while clock() - t < 3 do end')
        begun = time.monotonic()
        while True:
            message = self.kc.get_iopub_msg(timeout=patience)
            if message["msg_type"] == "stream":
                break
        self.assertLess(time.monotonic() - begun, 2)
        self.kc.get_shell_msg(timeout=patience)

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

    def test_the_history_has_earlier_sessions(self):
        self.outputs("now = 2")
        history = self.get_history(hist_access_type="tail", n=100)
        self.assertIn([1, 1, "an_earlier_entry = 1"], history)
        self.assertIn("now = 2", [code for session, _, code in history if session == 2])
        earlier = self.get_history(hist_access_type="range", session=-1, start=1, stop=2)
        self.assertEqual(earlier, [[1, 1, "an_earlier_entry = 1"]])
        self.assertIn("now = 2", [code for _, _, code in self.get_history(hist_access_type="search", pattern="now*")])
        with open(os.path.join(folder, "state", "causeway", "history")) as file:
            self.assertIn("now = 2\n", file.readlines())

    def get_history(self, **what):
        self.flush_channels()
        self.kc.history(raw=True, output=False, **what)
        return [list(entry) for entry in self.kc.get_shell_msg(timeout=patience)["content"]["history"]]

    def ask(self, code, answer, parent=None):
        """Runs a cell that asks; what it asks and what it sends."""
        self.flush_channels()
        self.kc.execute(code, allow_stdin=True)
        question = self.kc.get_stdin_msg(timeout=patience)
        message = self.kc.session.msg("input_reply", {"value": answer}, parent=parent or question)
        self.kc.stdin_channel.send(message)
        reply = self.kc.get_shell_msg(timeout=patience)
        return question, reply["content"]

    def test_the_user_is_asked(self):
        question, reply = self.ask("name = input('who? ')", "γ")
        self.assertEqual(question["content"], {"prompt": "who? ", "password": False})
        self.assertEqual(reply["status"], "ok")
        self.assertEqual(self.outputs("name", "execute_result", "data")[0]["text/plain"], '"γ"')
        self.ask("line = io.read()", "a line")
        self.assertEqual(self.outputs("line", "execute_result", "data")[0]["text/plain"], '"a line"')

    def test_a_front_end_that_takes_no_questions_is_said_so(self):
        self.flush_channels()
        self.kc.execute("input('who? ')", allow_stdin=False)
        reply = self.kc.get_shell_msg(timeout=patience)["content"]
        self.assertEqual(reply["status"], "error")
        self.assertIn("takes no questions", reply["evalue"])

    def test_an_interrupt_ends_a_question_and_its_late_answer_is_not_the_next_one(self):
        self.flush_channels()
        self.kc.execute("input('first')", allow_stdin=True, stop_on_error=False)  # that nothing aborts the next one
        first = self.kc.get_stdin_msg(timeout=patience)
        self.km.interrupt_kernel()
        self.assertEqual(self.kc.get_shell_msg(timeout=patience)["content"]["ename"], "interrupted")
        self.kc.stdin_channel.send(self.kc.session.msg("input_reply", {"value": "late"}, parent=first))
        self.kc.execute("answer = input('second')", allow_stdin=True)
        second = self.kc.get_stdin_msg(timeout=patience)
        again = self.kc.get_stdin_msg(timeout=patience)  # the late answer was no answer: the question is put once more
        self.assertEqual([second["content"]["prompt"], again["content"]["prompt"]], ["second", "second"])
        self.kc.stdin_channel.send(self.kc.session.msg("input_reply", {"value": "in time"}, parent=again))
        self.assertEqual(self.kc.get_shell_msg(timeout=patience)["content"]["status"], "ok")
        self.assertEqual(self.outputs("answer", "execute_result", "data")[0]["text/plain"], '"in time"')

    def interrupt(self, code):
        """Interrupts the cell after a second; the seconds until its reply."""
        self.flush_channels()
        self.kc.execute(code, stop_on_error=False)  # that nothing aborts the next one
        time.sleep(1)
        begun = time.monotonic()
        self.km.interrupt_kernel()
        reply = self.kc.get_shell_msg(timeout=patience)["content"]
        self.assertEqual((reply["status"], reply["ename"]), ("error", "interrupted"))
        return time.monotonic() - begun

    def test_interrupts_stop_cells_and_keep_the_session(self):
        self.outputs("kept = 42")
        for code in ["while true do end", "A = randn(3000, 3000) for i = 1, 1000 do A = A * A / 1e3 end",
                     "Q = randn(1, 4, 20000, 64) for i = 1, 100 do softmax_attention(Q, Q, Q) end",
                     "svd(randn(2500, 2500))", "eigvals(randn(1800, 1800))"]:
            with self.subTest(code=code):
                seconds = self.interrupt(code)
                print(f"interrupted after {seconds:.3f} s: {code}")
                self.assertLess(seconds, 2)  # 0.02 on an idle machine
                self.assertEqual(self.outputs("kept", "execute_result", "data")[0]["text/plain"], "42")

    def test_an_interrupt_between_two_cells_stops_neither(self):
        self.km.interrupt_kernel()
        time.sleep(0.2)
        self.assertEqual(self.outputs("6 * 7", "execute_result", "data")[0]["text/plain"], "42")

    def test_cells_behind_a_failed_one_are_aborted_and_said_to_be_done(self):
        self.flush_channels()
        self.kc.execute("local t = clock() while clock() - t < 0.5 do end error('as asked')", stop_on_error=True)
        behind = [self.kc.execute("1"), self.kc.execute("2")]
        status = [self.kc.get_shell_msg(timeout=patience)["content"]["status"] for _ in range(3)]
        self.assertEqual(status, ["error", "aborted", "aborted"])
        idle = set()
        while not idle.issuperset(behind):
            message = self.kc.get_iopub_msg(timeout=patience)
            if message["content"].get("execution_state") == "idle":
                idle.add(message["parent_header"]["msg_id"])
        self.assertEqual(self.outputs("3", "execute_result", "data")[0]["text/plain"], "3")

    def test_expressions_of_the_front_end(self):
        self.flush_channels()
        self.kc.execute("x = 5", user_expressions={"twice": "2 * x", "wrong": "nothing.at.all"})
        values = self.kc.get_shell_msg(timeout=patience)["content"]["user_expressions"]
        self.assertEqual(values["twice"]["data"]["text/plain"], "10")
        self.assertEqual(values["wrong"]["status"], "error")


class WidgetTests(unittest.TestCase):
    """Apart, for jupyter_kernel_test knows no messages of widgets."""

    @classmethod
    def setUpClass(cls):
        cls.km, cls.kc = jupyter_kernel_test.start_new_kernel(kernel_name="causeway")

    @classmethod
    def tearDownClass(cls):
        cls.kc.stop_channels()
        cls.km.shutdown_kernel()

    def test_sliders(self):
        messages = self.run_cell("interact(function(p) return p.gamma * 2 end, {gamma = {0.0, 1.0, 0.25}})")
        opened = {m["content"]["data"]["state"]["_model_name"]: m for m in messages if m["msg_type"] == "comm_open"}
        slider = opened["FloatSliderModel"]
        self.assertEqual(slider["content"]["target_name"], "jupyter.widget")
        self.assertEqual(slider["metadata"]["version"], "2.1.0")
        shown = [m["content"] for m in messages if m["msg_type"] == "display_data"]
        box = opened["VBoxModel"]["content"]["comm_id"]
        self.assertEqual(shown[0]["data"]["application/vnd.jupyter.widget-view+json"]["model_id"], box)
        self.assertIn("no sliders here", shown[0]["data"]["text/plain"])
        self.assertEqual(shown[1]["data"]["text/plain"], "1.0")
        moved = self.send_to(slider["content"]["comm_id"], {"method": "update", "state": {"value": 0.75}})
        updates = [m["content"] for m in moved if m["msg_type"] == "update_display_data"]
        self.assertEqual([u["data"]["text/plain"] for u in updates], ["1.5"])
        self.assertEqual(updates[0]["transient"], shown[1]["transient"])
        known = self.kc.comm_info(target_name="jupyter.widget", reply=True, timeout=patience)
        self.assertIn(box, known["content"]["comms"])
        # A page that was loaded anew asks for the state of all widgets.
        control = self.kc.session.msg("comm_open", {"comm_id": "control", "target_name": "jupyter.widget.control",
                                                    "data": {}})
        self.kc.shell_channel.send(control)
        states = [m["content"]["data"]["states"] for m in self.send_to("control", {"method": "request_states"})
                  if m["msg_type"] == "comm_msg"]
        self.assertEqual(states[0][slider["content"]["comm_id"]]["state"]["value"], 0.75)

    def run_cell(self, code):
        """What the cell sends."""
        messages = []
        self.kc.execute_interactive(code, timeout=patience, output_hook=messages.append)
        return messages

    def send_to(self, comm, data):
        """Sends to a widget; what the kernel says before it is idle again."""
        message = self.kc.session.msg("comm_msg", {"comm_id": comm, "data": data})
        self.kc.shell_channel.send(message)
        messages = []
        while True:
            one = self.kc.get_iopub_msg(timeout=patience)
            if one["parent_header"].get("msg_id") != message["header"]["msg_id"]:
                continue
            if one["content"].get("execution_state") == "idle":
                return messages
            messages.append(one)

    def test_an_interrupt_stops_the_function_of_a_slider(self):
        messages = self.run_cell("interact(function(p) while p.n > 1 do end return p.n end, {n = {0, 2}})")
        slider = next(m["content"]["comm_id"] for m in messages if m["msg_type"] == "comm_open"
                      and m["content"]["data"]["state"]["_model_name"] == "IntSliderModel")
        threading.Timer(1, self.km.interrupt_kernel).start()
        moved = self.send_to(slider, {"method": "update", "state": {"value": 2}})
        self.assertIn("interrupted", moved[-1]["content"]["data"]["text/plain"])
        reply = self.kc.execute_interactive("assert(6 * 7 == 42)", timeout=patience, output_hook=lambda message: None)
        self.assertEqual(reply["content"]["status"], "ok")


class IopubWelcomeTests(jupyter_kernel_test.IopubWelcomeTests):
    kernel_name = "causeway"
    support_iopub_welcome = True


def is_running(process):
    """Whether the process with this number lives; one that has ended and was not waited for does not."""
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def seconds_until(condition, limit):
    begun = time.monotonic()
    while not condition():
        if time.monotonic() - begun > limit:
            raise AssertionError(f"not so after {limit} s")
        time.sleep(0.05)
    return time.monotonic() - begun


class SecurityTests(unittest.TestCase):
    def start(self):
        manager, client = jupyter_kernel_test.start_new_kernel(kernel_name="causeway")
        self.addCleanup(manager.shutdown_kernel, now=True)
        self.addCleanup(client.stop_channels)
        return manager, client

    def test_the_kernel_listens_on_this_machine_alone(self):
        manager, client = self.start()
        sockets = set()
        process = manager.provisioner.process.pid
        for descriptor in os.listdir(f"/proc/{process}/fd"):
            try:
                target = os.readlink(f"/proc/{process}/fd/{descriptor}")
            except FileNotFoundError:
                continue
            if target.startswith("socket:"):
                sockets.add(target[8:-1])
        listening = []
        for table in ("tcp", "tcp6"):
            with open(f"/proc/{process}/net/{table}") as file:
                for line in file.readlines()[1:]:
                    fields = line.split()
                    if fields[3] == "0A" and fields[9] in sockets:
                        listening.append(fields[1].split(":")[0])
        self.assertGreaterEqual(len(listening), 5)
        self.assertEqual(set(listening), {"0100007F"})  # 127.0.0.1

    def test_a_connection_file_that_others_may_read_is_said_so(self):
        manager, client = self.start()
        self.assertEqual(os.stat(manager.connection_file).st_mode & 0o077, 0)
        connection = manager.get_connection_info()
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            connection["key"] = connection["key"].decode()
            json.dump(connection | {"ip": "256.0.0.1"}, file)  # no address: it ends after it has looked
            file.flush()
            os.chmod(file.name, 0o644)
            done = subprocess.run([program, "--kernel", file.name], capture_output=True, text=True, timeout=patience)
        self.assertIn("can be read by others", done.stderr)
        self.assertEqual(done.returncode, 1)

    def test_messages_without_the_key_are_not_heeded_on_any_channel(self):
        manager, client = self.start()
        forger = manager.client()
        forger.session.key = b"another key"
        forger.start_channels()
        self.addCleanup(forger.stop_channels)
        forger.execute("forged = true")
        forger.control_channel.send(forger.session.msg("shutdown_request", {"restart": False}))
        time.sleep(1)
        self.assertTrue(is_running(manager.provisioner.process.pid))
        reply = client.execute_interactive("assert(rawget(_G, 'forged') == nil)", timeout=patience, store_history=False)
        self.assertEqual(reply["content"]["status"], "ok")


class DeathTests(unittest.TestCase):
    """Neither leaves the other waiting."""

    def test_a_kernel_whose_server_was_killed_ends(self):
        for cell in ("", "while true do end"):
            with self.subTest(cell=cell):
                server = subprocess.Popen(
                    [sys.executable, "-c", "import sys, time, jupyter_client\n"
                     "manager, client = jupyter_client.manager.start_new_kernel(kernel_name='causeway')\n"
                     "print(manager.provisioner.process.pid, flush=True)\n"
                     f"client.execute({cell!r})\ntime.sleep(100)"], stdout=subprocess.PIPE, text=True)
                kernel = int(next(line for line in server.stdout if line.strip().isdigit()))  # xeus 5 prints lines too
                time.sleep(1)
                self.assertTrue(is_running(kernel))
                server.kill()
                server.wait()
                print(f"ended {seconds_until(lambda: not is_running(kernel), 10):.1f} s after its server")

    def test_a_kernel_that_dies_in_a_cell_ends_the_run(self):
        book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(";kill -KILL $PPID")])
        begun = time.monotonic()
        with self.assertRaises(DeadKernelError):
            NotebookClient(book, kernel_name="causeway", timeout=120).execute()
        print(f"told of a dead kernel after {time.monotonic() - begun:.1f} s")
        self.assertLess(time.monotonic() - begun, 60)


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
    program = sys.argv.pop(1)
    install_kernel(program)
    result = unittest.main(exit=False, verbosity=2).result
    shutil.rmtree(folder)
    wrong = result.failures or result.errors or result.skipped
    print(f"{result.testsRun} tests, {len(result.skipped)} skipped")
    sys.exit(1 if wrong else 0)
