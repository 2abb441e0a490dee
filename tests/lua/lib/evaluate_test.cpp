// m:evaluate on small sets in the formats of MMLU and LongBench, written here: the answers are those of a plain
// computation from m:logits, and every file that is not as it should be is told by name and line.
#include <filesystem>

#include "tests/catch.hpp"
#include "tests/lua/program.hpp"
#include "tests/lua/shell.hpp"

using causeway::testing::contains;
using causeway::testing::Output;
using causeway::testing::read_bytes;
using causeway::testing::run_in;
using causeway::testing::Shell;
using causeway::testing::TemporaryFolder;
using causeway::testing::write_bytes;

namespace {

// A shell with the small Llama and a folder of questions as MMLU has them.
struct Questions : Shell {
    Questions() {
        set("llama_path", source_dir() + "/experiments/data/tiny-llama");
        write(
            "mmlu/data/dev/astronomy_dev.csv",
            "Which planet is red?,Mars,Venus,Saturn,Earth,A\n\"What is the \"\"Moon\"\", then?\",A star,A satellite,A "
            "comet,A galaxy,B\n");
        write("mmlu/data/test/astronomy_test.csv",
              " Which is the largest planet? ,Mars,Earth,Jupiter,Venus,C\n\n\"Our galaxy,\nthis one, is "
              "the\",Milky Way,Andromeda,Orion,Sirius,A\n");
        write("mmlu/data/dev/world_religions_dev.csv",
              "Who was swallowed by a fish?,Jonah,Noah,Adam,Lot,A\nWho built the ark?,Cain,Noah,Adam,Lot,B\n");
        write("mmlu/data/test/world_religions_test.csv",
              "In the beginning was the,Ark,Word,Flood,Tower,B\nWho was the first man?,Jonah,Noah,Adam,Lot,C\nWho was "
              "turned into a pillar of salt?,Jonah's son,Noah's wife,Adam's rib,Lot's wife,D\n");
        write("mmlu/data/val/world_religions_val.csv", "Who slew Abel?,Cain,Noah,Adam,Lot,A\n");
        REQUIRE((*this)("m = model(llama_path) mmlu = dir .. 'mmlu'") == "");
        // The log-probability of a choice from all logits of the text; a token of this model is a byte.
        (*this)(R"(
            function log_p(prompt, choice)
              local all, sum = m:logits(prompt .. choice), 0
              for i = #prompt, #prompt + #choice - 1 do
                local row = f64(reshape(all(i), 256))
                sum = sum + row(choice:byte(i - #prompt + 1) + 1) - log(exp(row - maximum(row)):sum()) - maximum(row)
              end
              return sum
            end
            -- Whether a question's numbers are those of its prompt and choices.
            function agrees(one, prompt, choices)
              local best, best_per_byte = 1, 1
              local p, per_byte = {}, {}
              for i, choice in ipairs(choices) do
                p[i] = log_p(prompt, choice)
                per_byte[i] = p[i] / #choice:gsub("^ ", "")
                if p[i] > p[best] then best = i end
                if per_byte[i] > per_byte[best_per_byte] then best_per_byte = i end
                if not (math.abs(p[i] - one.log_probabilities[i]) <= 1e-3) then return "off", i, p[i] end
              end
              return one.chosen == best and one.chosen_normalised == best_per_byte
                and one.score == (best == one.answer and 1 or 0)
                and one.normalised == (best_per_byte == one.answer and 1 or 0)
            end)");
    }

    void write(const std::string& name, const std::string& text) const {
        std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
        write_bytes(path(name), text);
    }
};

}  // namespace

TEST_CASE("MMLU: the prompts are its own, and the answers those of the logits", "[lua][model][evaluate]") {
    Questions lua;
    CHECK(lua("r = m:evaluate{mmlu = mmlu, shots = 2}") == "");
    lua(R"(
        head = "The following are multiple choice questions (with answers) about astronomy.\n\n"
        shots = "Which planet is red?\nA. Mars\nB. Venus\nC. Saturn\nD. Earth\nAnswer: A\n\n"
          .. 'What is the "Moon", then?\nA. A star\nB. A satellite\nC. A comet\nD. A galaxy\nAnswer: B\n\n'
        one = "Which is the largest planet?\nA. Mars\nB. Earth\nC. Jupiter\nD. Venus\nAnswer:"
        two = "Our galaxy,\nthis one, is the\nA. Milky Way\nB. Andromeda\nC. Orion\nD. Sirius\nAnswer:"
        letters = {" A", " B", " C", " D"})");
    CHECK(lua("return #r.questions, r.questions[1].answer, r.questions[2].answer") == "5 3 1");
    CHECK(lua("return agrees(r.questions[1], head .. shots .. one, letters)") == "true");
    CHECK(lua("return agrees(r.questions[2], head .. shots .. two, letters)") == "true");
    CHECK(lua("return r.questions[1].line, r.questions[2].line, r.questions[2].path == mmlu .. "
              "'/data/test/astronomy_test.csv'") == "1 3 true");
    // Without examples, and in the other form: the texts of the choices, which normalising by length may reorder.
    CHECK(lua("return agrees(m:evaluate{mmlu = mmlu .. '/data', shots = 0, subjects = 'astronomy'}.questions[2], head "
              ".. two, letters)") == "true");
    lua("t = m:evaluate{mmlu = mmlu, shots = 1, by = 'text', subjects = {'world_religions'}}");
    lua(R"(head = "The following are questions (with answers) about world religions.\n\n"
             .. "Question: Who was swallowed by a fish?\nAnswer: Jonah\n\n")");
    CHECK(lua("return agrees(t.questions[3], head .. 'Question: Who was turned into a pillar of salt?\\nAnswer:', "
              "{\" Jonah's son\", \" Noah's wife\", \" Adam's rib\", \" Lot's wife\"})") == "true");
    CHECK(
        lua("v = m:evaluate{mmlu = mmlu, split = 'val', shots = 1} return #v.questions, v.questions[1].path == mmlu .. "
            "'/data/val/world_religions_val.csv'") == "1 true");
}

TEST_CASE("MMLU: rows by subject, by group and of all, with Wilson's interval", "[lua][model][evaluate]") {
    Questions lua;
    lua("r = m:evaluate{mmlu = mmlu, shots = 2}");
    CHECK(lua("return #r, r[1].subject, r[1].n, r[2].subject, r[2].n, r.all.n") == "2 astronomy 2 world_religions 3 5");
    CHECK(lua("return r.groups[1].subject, r.groups[1].n, r.groups[2].subject, r.groups[2].n") ==
          "STEM 2 humanities 3");
    CHECK(lua("local sum = 0 for _, q in ipairs(r.questions) do sum = sum + (q.chosen == q.answer and 1 or 0) end "
              "return math.abs(r.all.accuracy - sum / 5) < 1e-12") == "true");
    // The ends of the interval are where |p - accuracy| = 1.96 sqrt(p (1 - p) / n).
    CHECK(lua("for _, row in ipairs{r[1], r[2], r.all} do for _, p in ipairs{row.lower, row.upper} do "
              "if not (math.abs((p - row.accuracy)^2 - 3.8414588 * p * (1 - p) / row.n) < 1e-6) then return p end end "
              "end return 'right'") == "right");
    const std::string table = lua("return tostring(r)");
    CHECK(contains(table, "MMLU (test), 2 shots: tiny-llama"));
    CHECK(contains(table, " subject          n  accuracy %"));
    CHECK(contains(table, "\n humanities       3 "));
    CHECK(contains(lua("return r:markdown()"), "| world\\_religions | 3 |"));
    CHECK(contains(lua("return r.lines"), "an evaluation has no \"lines\""));
    CHECK(contains(lua("return r[1].acuracy"), "(did you mean \"accuracy\"?)"));
    CHECK(lua("return m:evaluate{mmlu = mmlu, shots = 2, limit = 1}.all.n") == "2");
    // What made it: the files with their digests, the model, what its layers are.
    CHECK(
        lua("local n = 0 for path in pairs(r.origin.data) do n = n + (path:find(mmlu, 1, true) and 1 or 0) end return "
            "n, r.origin.build ~= nil, r.model == llama_path, #r.replaced, r.stopped") == "4 true true 0 false");
}

TEST_CASE("MMLU with other attention in some layers", "[lua][model][evaluate]") {
    Questions lua;
    lua(R"(
        shots = "The following are multiple choice questions (with answers) about astronomy.\n\n"
          .. "Which planet is red?\nA. Mars\nB. Venus\nC. Saturn\nD. Earth\nAnswer: A\n\n"
        prompt = shots .. "Which is the largest planet?\nA. Mars\nB. Earth\nC. Jupiter\nD. Venus\nAnswer:"
        letters = {" A", " B", " C", " D"}
        own = m:evaluate{mmlu = mmlu, shots = 1, subjects = 'astronomy'})");
    for (const std::string with : {"'nystrom'", "'favor+'", "'flash'", "function(q, k, v, s) return v end"}) {
        INFO(with);
        lua("m:attention{layers = {2, 5}, with = " + with + "}");
        lua("r = m:evaluate{mmlu = mmlu, shots = 1, subjects = 'astronomy'}");
        // What looks at the whole text, as nystrom does, sees the prompt before it sees a choice, as in m:score.
        CHECK(lua("for i, s in ipairs(m:score(prompt, letters)) do if not (math.abs(s.log_probability - "
                  "r.questions[1].log_probabilities[i]) <= 1e-3) then return i end end return 'same'") == "same");
        if (with != "'nystrom'") CHECK(lua("return agrees(r.questions[1], prompt, letters)") == "true");
        CHECK(lua("return #r.replaced, r.replaced[1]:sub(1, 9), r.replaced[2]:sub(1, 9)") == "2 layer 2:  layer 5: ");
        CHECK(contains(lua("return r:table():text()"), "attention replaced in 2 layers"));
        CHECK(lua("return math.abs(r.questions[1].log_probabilities[1] - own.questions[1].log_probabilities[1]) > "
                  "1e-3") == (with == "'flash'" ? "false" : "true"));
        lua("m:reset()");
    }
    // What ran before the attention changed is not used after it.
    CHECK(lua("r = m:evaluate{mmlu = mmlu, shots = 1, subjects = 'astronomy'} return agrees(r.questions[2], shots .. "
              "'Our galaxy,\\nthis one, is the\\nA. Milky Way\\nB. Andromeda\\nC. Orion\\nD. Sirius\\nAnswer:', "
              "letters)") == "true");
}

TEST_CASE("MMLU: a context too short has fewer examples, or leaves the question out", "[lua][model][evaluate]") {
    Questions lua;
    // The model's own context is 4096 bytes: three examples of 1500 do not fit, two do; a question of 5000 never does.
    const std::string words = std::string(1500, 'x');
    lua.write("long/dev/law_dev.csv", words + ",a,b,c,d,A\n" + words + ",a,b,c,d,B\n" + words + ",a,b,c,d,C\n");
    lua.write("long/test/law_test.csv", "Short?,a,b,c,d,A\n" + std::string(5000, 'y') + ",a,b,c,d,B\n");
    lua("r = m:evaluate{mmlu = dir .. 'long', shots = 3}");
    CHECK(lua("return r.questions[1].shots, r.questions[2].shots, r[1].n, r[1].left_out") == "2 nil 1 1");
    const std::string note = lua("return r.note");
    CHECK(contains(note, "left out, as longer than the model's context: 1 question; "));
    CHECK(contains(note, "with fewer shots, as the context holds no more: 1 question; "));
}

TEST_CASE("MMLU: files that are not as they should be", "[lua][model][evaluate]") {
    Questions lua;
    const std::string at = lua("return mmlu");
    const std::string test = at + "/data/test/astronomy_test.csv";
    CHECK(lua("m:evaluate{mmlu = dir .. 'none'}") ==
          "user:1: mmlu: " + lua("return dir") +
              "none holds no folder test, expected the folder \"data\" of MMLU, with "
              "dev/NAME_dev.csv and test/NAME_test.csv");
    CHECK(lua("m:evaluate{mmlu = 3}") == "user:1: mmlu: expected the path of a folder, got a number");
    CHECK(lua("m:evaluate{mmlu = mmlu, shots = 2, subjects = {'astronomie'}}") ==
          "user:1: subjects: nothing is named \"astronomie\" in " + at + "/data/test (did you mean \"astronomy\"?)");
    CHECK(lua("m:evaluate{mmlu = mmlu}") ==
          "user:1: " + at + "/data/dev/astronomy_dev.csv: holds 2 examples, expected 5, as many as shots");
    lua.write("mmlu/data/test/astronomy_test.csv", "One?,a,b,c,d,A\nTwo?,a,b,c,A\n");
    CHECK(lua("m:evaluate{mmlu = mmlu, shots = 0}") ==
          "user:1: " + test + ": line 2 has 5 cells, expected 6: the question, four choices and a letter");
    lua.write("mmlu/data/test/astronomy_test.csv", "\"One\n?\",a,b,c,d,A\nTwo?,a,b,c,d,E\n");
    CHECK(lua("m:evaluate{mmlu = mmlu, shots = 0}") ==
          "user:1: " + test + ": line 3 has the answer \"E\", expected A, B, C or D");
    lua.write("mmlu/data/test/astronomy_test.csv", "\"One?,a,b,c,d,A\n");
    CHECK(lua("m:evaluate{mmlu = mmlu, shots = 0}") ==
          "user:1: " + test + ": line 1 opens a quote that is never closed");
    lua.write("mmlu/data/test/astronomy_test.csv", "");
    CHECK(lua("m:evaluate{mmlu = mmlu, shots = 0}") ==
          "user:1: " + test + ": holds no questions, expected one on each line");
    CHECK(lua("return error_kind((select(2, pcall(m.evaluate, m, {mmlu = mmlu, shots = 0}))))") == "I/O");
}

TEST_CASE("what evaluate takes", "[lua][model][evaluate]") {
    Questions lua;
    CHECK(lua("m:evaluate()") ==
          "user:1: evaluate: nothing to ask, expected mmlu = \"path\", longbench = \"path\" or cloze = true");
    CHECK(lua("m:evaluate{mmlu = mmlu, cloze = true}") == "user:1: evaluate: mmlu and cloze, expected one of them");
    CHECK(lua("m:evaluate{cloze = true, shots = 3}") ==
          "user:1: shots: 3, expected nothing beside cloze: it is of mmlu");
    CHECK(lua("m:evaluate{mmlu = mmlu, window = 3}") ==
          "user:1: window: 3, expected nothing beside mmlu: it is of longbench");
    CHECK(lua("m:evaluate{mmlu = mmlu, shots = -1}") == "user:1: shots: -1, expected a whole number of at least 0");
    CHECK(lua("m:evaluate{mmlu = mmlu, limit = 1.5}") == "user:1: limit: 1.5, expected a whole number of at least 1");
    CHECK(lua("m:evaluate{mmlu = mmlu, by = 'letters'}") == "user:1: by: \"letters\", expected \"letter\" or \"text\"");
    CHECK(lua("m:evaluate{mmlu = mmlu, split = 'dev'}") == "user:1: split: \"dev\", expected \"test\" or \"val\"");
    CHECK(lua("m:evaluate{mmlu = mmlu, chat = 1}") == "user:1: chat: expected true or false, got a number");
    CHECK(lua("m:evaluate{mmlu = mmlu, shot = 1}") ==
          "user:1: evaluate: unknown option \"shot\" (did you mean \"shots\"?)");
    // The small model knows no chats.
    CHECK(contains(lua("m:evaluate{mmlu = mmlu, shots = 0, chat = true}"), "the checkpoint has no chat template"));
}

TEST_CASE("an evaluation that is stopped keeps what is done", "[lua][model][evaluate]") {
    Questions lua;
    lua(R"(
        function stop_at(last)
          local runs = 0
          m:attention{layers = 6, with = function(q, k, v, s)
            runs = runs + 1
            if runs > last then error(causeway._of_kind("stopped", "interrupted"), 0) end
            return softmax_attention(q, k, v, {scale = s})
          end}
        end
        stop_at(15)  -- a prompt, and the letter behind the blank of four choices: 5 runs a question
        )");
    CHECK(lua("m:evaluated()") == "user:1: evaluated: nothing was asked yet, expected m:evaluate before it");
    CHECK(lua("m:evaluate{mmlu = mmlu, shots = 1}") == "stopped");
    lua("m:reset() r = m:evaluated()");
    CHECK(lua("return r.stopped, #r.questions, r[1].n, r[2].n, r.all.n") == "true 3 2 1 3");
    CHECK(contains(lua("return r.note"), "stopped after 3 of 5 questions; accuracy: "));
    CHECK(lua("return #r.replaced, r.replaced[1]") == "1 layer 6: a function");
    CHECK(lua("r = m:evaluate{mmlu = mmlu, shots = 1} return r.stopped, m:evaluated().all.n == r.all.n, r.all.n") ==
          "false true 5");
}

TEST_CASE("the cloze set that ships, and one of the user's", "[lua][model][evaluate]") {
    Questions lua;
    lua("r = m:evaluate{cloze = true, limit = 25} list = {} for line in io.lines(llama_path .. '/../cloze.jsonl') do "
        "list[#list + 1] = json_decode(line) end");
    CHECK(lua("return #list, #r.questions, r.kind") == "200 25 cloze");
    for (const char* i : {"1", "7", "25"})
        CHECK(lua(std::string("i = ") + i +
                  " return list[i].answer == r.questions[i].answer and agrees(r.questions[i], list[i].text, "
                  "list[i].choices)") == "true");
    // The model was trained on the rest of the book: it is far better than one in four.
    CHECK(lua("return r.all.accuracy > 0.5") == "true");
    lua.write("own.jsonl",
              "{\"text\": \"In the beginning was the\", \"choices\": [\" Word\", \" Xyzzy\"], \"answer\": 1, "
              "\"subject\": \"easy\"}\n\n");
    CHECK(lua("r = m:evaluate{cloze = dir .. 'own.jsonl'} return r[1].subject, r.all.accuracy, r.questions[1].line") ==
          "easy 1.0 1");
    const std::string own = lua.path("own.jsonl");
    const std::pair<const char*, const char*> wrong[] = {
        {"{", "is no object in JSON"},
        {"3", "is no object in JSON"},
        {"{\"choices\": [\"a\", \"b\"], \"answer\": 1}", "has no text in \"text\""},
        {"{\"text\": \"x\", \"choices\": [\"a\"], \"answer\": 1}", "has no list of two texts or more in \"choices\""},
        {"{\"text\": \"x\", \"choices\": [\"a\", 2], \"answer\": 1}",
         "has no list of two texts or more in \"choices\""},
        {"{\"text\": \"x\", \"choices\": [\"a\", \"b\"], \"answer\": 0}",
         "has the answer 0, expected the place of a choice, from 1 to 2"}};
    for (const auto& [line, sentence] : wrong) {
        lua.write("own.jsonl", std::string("{\"text\": \"x\", \"choices\": [\"a\", \"b\"], \"answer\": 2}\n") + line);
        CHECK(lua("m:evaluate{cloze = dir .. 'own.jsonl'}") == "user:1: " + own + ": line 2 " + sentence);
    }
    lua.write("own.jsonl", "\n");
    CHECK(lua("m:evaluate{cloze = dir .. 'own.jsonl'}") ==
          "user:1: " + own + ": holds no questions, expected one on each line");
    CHECK(contains(lua("m:evaluate{cloze = dir .. 'nothing.jsonl'}"), "nothing.jsonl: No such file or directory"));
    CHECK(lua("m:evaluate{cloze = 7}") == "user:1: cloze: expected true or the path of a .jsonl file, got a number");
}

TEST_CASE("the cloze set is what its generator writes", "[lua][evaluate]") {
    const TemporaryFolder folder;
    const Output output = run_in(folder, {source_dir() + "/experiments/data/make_cloze.lua", "--save", folder.path()});
    CAPTURE(output.err);
    CHECK(output.status == 0);
    CHECK(read_bytes(folder / "cloze.jsonl") == read_bytes(source_dir() + "/experiments/data/cloze.jsonl"));
}

TEST_CASE("answers are measured as LongBench measures them", "[lua][evaluate]") {
    Shell lua;
    // Expected: what metrics.py of LongBench gives, with rouge 1.0.1 and difflib of Python 3.11.
    const auto is = [&](const std::string& metric, const std::string& arguments) {
        return lua("return string.format('%.6f', causeway._answer_metrics['" + metric + "'](" + arguments + "))");
    };
    CHECK(is("F1", "'The  cat, sat on the mat.', 'a cat sat'") == "0.666667");
    CHECK(is("F1", "'dog dog', 'dog'") == "0.666667");
    CHECK(is("F1", "'', 'dog'") == "0.000000");
    CHECK(is("F1", "'Theatre an', 'theatre'") == "1.000000");
    CHECK(is("ROUGE-L", "'the cat sat on the mat', 'the cat was on a mat'") == "0.727273");
    CHECK(is("ROUGE-L", "'a b. c d', 'c d. a b. '") == "0.888889");
    CHECK(is("ROUGE-L", "'...', 'a'") == "0.000000");
    CHECK(is("edit similarity", "'\\n# no\\nreturn x + 1\\nmore', 'return x + y'") == "0.920000");
    CHECK(is("edit similarity", "'`', 'x'") == "0.000000");
    CHECK(is("edit similarity", "'été', 'étés'") == "0.860000");
    CHECK(is("edit similarity", "('ab'):rep(120), ('ba'):rep(120)") ==
          "0.000000");  // letters so frequent begin no part
    CHECK(is("count", "'3 or 12, no, 12', '12'") == "0.666667");
    CHECK(is("count", "'none', '12'") == "0.000000");
    CHECK(is("retrieval", "'Paragraph 3 of 30', 'Paragraph 3'") == "0.500000");
    CHECK(is("retrieval", "'7', '段落7'") == "1.000000");
    CHECK(is("accuracy", "'Food type, or Date', 'Food type', {'Food', 'Food type', 'Date'}") == "0.500000");
    CHECK(is("accuracy", "'Food type, or Date', 'Date', {'Food', 'Food type', 'Date'}") == "0.333333");
    CHECK(is("accuracy", "'x', 'Date', {'Food', 'Date'}") == "0.000000");
}

namespace {

const std::string qasper =
    "{\"input\": \"Who sat?\", \"context\": \"The cat sat on the mat.\", \"answers\": [\"a cat\", \"the cat\"], "
    "\"length\": 8, \"dataset\": \"qasper\", \"language\": \"en\", \"all_classes\": null, \"_id\": \"1\"}\n";
const std::string trec =
    "{\"input\": \"Question: What is a cat?\\nType:\", \"context\": \"Question: What is red?\\nType: Colour\", "
    "\"answers\": [\"Animal\"], \"length\": 8, \"dataset\": \"trec\", \"all_classes\": [\"Animal\", \"Colour\"]}\n";

}  // namespace

TEST_CASE("LongBench: a task's prompt, the answer and its score", "[lua][model][evaluate]") {
    Questions lua;
    lua.write("bench/data/qasper.jsonl", qasper + "\n" + qasper);
    lua.write("bench/data/trec_e.jsonl", trec);
    lua("r = m:evaluate{longbench = dir .. 'bench'}");
    CHECK(lua("return #r, r[1].subject, r[1].metric, r[1].n, r[2].subject, r[2].metric, r[2].n, r.all") ==
          "2 qasper F1 2 trec_e accuracy 1 nil");
    CHECK(lua("return r.questions[1].line, r.questions[2].line, r.questions[1].length") == "1 3 8");
    lua("given = 'The cat sat on the mat.\\n\\nQuestion: Who sat?\\nAnswer:' "
        "text = m:generate(given, {tokens = 128, stream = false}) f1 = causeway._answer_metrics.F1");
    CHECK(lua("return r.questions[1].text == text, r.questions[1].score == math.max(f1(text, 'a cat'), f1(text, 'the "
              "cat')), r[1].score == r.questions[1].score") == "true true true");
    lua("text = m:generate('Question: What is red?\\nType: Colour\\nQuestion: What is a cat?\\nType:', {tokens = 64, "
        "stream = false})");
    CHECK(lua("return r.questions[3].text == text") == "true");
    CHECK(contains(lua("return tostring(r)"), "LongBench: tiny-llama"));
    CHECK(contains(lua("return r.note"), "prompts in a plain form of this program"));
    // LongBench-E has scores by length too.
    const auto of_length = [](const std::string& length) {
        std::string line = trec;
        return line.replace(line.find("\"length\": 8"), 11, "\"length\": " + length);
    };
    lua.write("e/trec_e.jsonl", of_length("3999") + of_length("4000") + of_length("8000") + of_length("9000"));
    lua("r = m:evaluate{longbench = dir .. 'e'} list = {} for i, g in ipairs(r.groups) do list[i] = g.subject .. ' ' "
        ".. "
        "g.n end");
    CHECK(lua("return table.concat(list, '; ')") == "trec_e, 0-4k 1; trec_e, 4-8k 1; trec_e, 8k+ 2");
    // One file, the prompts of a file, a window.
    lua.write("prompts.json", "{\"qasper\": \"Read: {context} Now: {input} %1\"}");
    lua("r = m:evaluate{longbench = dir .. 'bench/data/qasper.jsonl', prompts = dir .. 'prompts.json', limit = 1}");
    CHECK(
        lua("return r.questions[1].text == m:generate('Read: The cat sat on the mat. Now: Who sat? %1', {tokens = 128, "
            "stream = false}), r.note:find('plain form') == nil, r.questions[1].cut") == "true true false");
    lua("r = m:evaluate{longbench = dir .. 'bench', tasks = {'qasper'}, limit = 1, window = 21}");
    CHECK(lua("return #r, r.questions[1].cut, r.questions[1].text == m:generate(given:sub(1, 10) .. given:sub(-10), "
              "{tokens = 128, stream = false})") == "1 true true");
    CHECK(contains(lua("return r.note"), "cut in the middle: 1 question; "));
}

TEST_CASE("LongBench: files that are not as they should be", "[lua][model][evaluate]") {
    Questions lua;
    const std::string file = lua.path("x.jsonl");
    const auto fault = [&](const std::string& lines) {
        lua.write("x.jsonl", lines);
        return lua("m:evaluate{longbench = dir .. 'x.jsonl'}");
    };
    const std::string start = "user:1: " + file + ": line ";
    CHECK(fault(qasper + "{\"input\"") == start + "2 is no object in JSON");
    CHECK(fault(qasper + "{}") == start + "2 has no text in \"context\"");
    CHECK(fault("{\"dataset\": \"qasper\", \"context\": \"x\"}") == start + "1 has no text in \"input\"");
    CHECK(fault("{\"dataset\": \"qasper\", \"context\": \"x\", \"input\": \"\", \"answers\": []}") ==
          start + "1 has no list of texts in \"answers\"");
    CHECK(fault("{\"dataset\": \"trec\", \"context\": \"x\", \"input\": \"\", \"answers\": [\"a\"]}") ==
          start + "1 has no list of texts in \"all_classes\"");
    CHECK(
        fault("{\"dataset\": \"passage_retrieval_en\", \"context\": \"x\", \"input\": \"\", \"answers\": [\"a 3\"]}") ==
        start + "1 has the answer \"a 3\", expected Paragraph and a number");
    CHECK(contains(fault("{\"context\": \"x\"}"),
                   start + "1 is of \"x\", which is no task of LongBench known here: 2wikimqa, "));
    CHECK(fault("{\"dataset\": \"dureader\"}") ==
          "user:1: longbench: the metric of dureader cuts Chinese into words, which is not done here: expected other "
          "tasks");
    CHECK(lua("m:evaluate{longbench = dir .. 'none'}") ==
          "user:1: longbench: " + lua.path("none") + " is neither a file nor a folder");
    lua.write("empty/readme.txt", "x");
    CHECK(lua("m:evaluate{longbench = dir .. 'empty'}") ==
          "user:1: longbench: " + lua.path("empty") + " holds no .jsonl files");
    fault(qasper);
    CHECK(lua("m:evaluate{longbench = dir .. 'x.jsonl', window = 1}") ==
          "user:1: window: 1, expected a whole number of at least 2");
    CHECK(lua("m:evaluate{longbench = dir .. 'x.jsonl', prompts = {qasper = 'x'}}") ==
          "user:1: prompts: that of qasper is \"x\", expected a text with {context} in it");
    // Behind the limit nothing is read.
    fault(qasper + "{");
    CHECK(lua("return m:evaluate{longbench = dir .. 'x.jsonl', limit = 1}[1].n") == "1");
    // Beside others a task whose metric is not here is left out.
    lua.write("two/dureader.jsonl", "{\"dataset\": \"dureader\"}\n");
    lua.write("two/qasper.jsonl", qasper);
    CHECK(contains(lua("return m:evaluate{longbench = dir .. 'two'}.note"),
                   "left out, as their metric cuts Chinese into words: dureader"));
}
