// The reproduction of the documents' tables and figures: the rules of its verdicts, that nothing printed is left out,
// and a small run with its page.
#include <sys/wait.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "tests/catch.hpp"
#include "tests/experiments/folder.hpp"
#include "tests/lua/program.hpp"
#include "tests/lua/shell.hpp"
#include "tests/lua/width.hpp"
#include "tests/paths.hpp"

using namespace causeway::testing;
using nlohmann::json;

namespace {

// A shell that has the rules as v, and word(verdict) and text(verdict).
Shell& with_rules(Shell& lua) {
    lua("v = dofile('" + experiments + "lib/verdicts.lua')");
    return lua;
}

std::set<std::string> items() {
    Shell lua;
    const std::string listed = lua("local t = {} for i, item in ipairs(dofile('" + experiments +
                                   "lib/items.lua')) do t[i] = item.document .. '/' .. item.name end "
                                   "return table.unpack(t)");
    std::set<std::string> found;
    std::istringstream words(listed);
    for (std::string id; words >> id;) CHECK(found.insert(id).second);
    return found;
}

Output reproduce(const TemporaryFolder& folder, std::vector<std::string> options) {
    options.insert(options.begin(), experiments + "reproduce.lua");
    return run_in(folder, options);
}

// Whether a process works in the folder.
bool in_use(const std::string& folder) {
    for (const auto& process : std::filesystem::directory_iterator("/proc")) {
        std::error_code gone;
        if (std::filesystem::read_symlink(process.path() / "cwd", gone) == std::filesystem::path(folder)) return true;
    }
    return false;
}

// Puts one number in the place of all medians that a sweep has kept.
void replace_medians(const std::string& path, const std::string& number) {
    std::istringstream rows(read_bytes(path));
    std::string changed;
    for (std::string line; std::getline(rows, line);) {
        json row = json::parse(line);
        if (row.contains("values") && row["values"].contains("median")) row["values"]["median"] = json::parse(number);
        changed += row.dump() + "\n";
    }
    write_bytes(path, changed);
}

}  // namespace

TEST_CASE("what would change nothing is refused", "[experiments][reproduce]") {
    const TemporaryFolder folder;
    const auto refused = [&](std::vector<std::string> options) { return reproduce(folder, std::move(options)).err; };
    const std::string kept = experiments + "data/runs/cpu-quick.json";
    CHECK(refused({"--from", kept, "--only", "leet"}) ==
          "error: --only: given together with --from, which runs nothing, expected all items\n");
    CHECK(refused({"--from", kept, "--quick"}) == "error: --quick: given together with --from, which runs nothing\n");
}

TEST_CASE("a growth exponent has the interval of its fit", "[experiments][reproduce]") {
    Shell shell;
    Shell& lua = with_rules(shell);
    CHECK(lua("return v.fit_text(v.fit({1, 2, 4, 8}, {3, 6, 12, 24}))") == "1.00 ± 0.00");
    CHECK(lua("return v.fit_text(v.fit({1, 2}, {3, 12}))") == "2.00 (2 points)");
    CHECK(lua("return v.fit({1}, {3}), v.fit({2, 2}, {3, 4})") == "nil nil");
    // Against the textbook: y of 1, 2, 3 on x of 0, 1, 3 (as logarithms) has slope 9/14 and standard error 0.1237.
    CHECK(lua("f = v.fit({1, math.exp(1), math.exp(3)}, {math.exp(1), math.exp(2), math.exp(3)}) "
              "return string.format('%.4f %.4f %.3f', f.exponent, f.error, f.half)") == "0.6429 0.1237 1.572");
    const std::string linear = "v.fit({1, 2, 4, 8}, {1, 2.02, 3.98, 8})", square = "v.fit({1, 2, 4}, {1, 4, 16})";
    const auto same = [&](const std::string& a, const std::string& b) {
        return lua("return v.same_exponent(" + a + ", " + b + ").verdict");
    };
    CHECK(same(linear, linear) == "holds");
    CHECK(same(square, linear) == "differs");
    CHECK(same("v.fit({1, 2, 4}, {1, 3, 3})", linear) == "undecided");
    CHECK(same("nil", linear) == "not run");
    CHECK(lua("return v.exponent_is(" + linear + ", 1).verdict, v.exponent_is(" + square + ", 1).verdict, " +
              "v.exponent_is(v.fit({1, 2}, {1, 2}), 1).verdict, v.exponent_is(v.fit({1, 2}, {1, 8}), 1).verdict") ==
          "holds differs undecided undecided");
}

TEST_CASE("the order of methods leaves out what is close", "[experiments][reproduce]") {
    Shell shell;
    Shell& lua = with_rules(shell);
    lua("function cells(...) local list = {} for i, c in ipairs({...}) do list[i] = {method = c[1], N = c[2], ours = "
        "c[3], printed = c[4]} end return list end");
    CHECK(lua("return v.same_order(cells({'a', 1, 1, 10}, {'b', 1, 2, 30}, {'c', 1, 5, 31})).verdict") == "holds");
    const std::string turned =
        lua("local r = v.same_order(cells({'a', 1, 1, 30}, {'b', 1, 2, 10})) "
            "return r.verdict .. ': ' .. r.statistic");
    CHECK(turned == "differs: τ = -1.00; 1 of 1 clear pairs turned around: faster here a and b at 1");
    // Within 25 % there is no order, here or there, and other lengths are not compared.
    CHECK(lua("return v.same_order(cells({'a', 1, 1, 12}, {'b', 1, 2, 10}, {'c', 2, 9, 1})).verdict") == "not run");
    CHECK(lua("return v.same_order(cells({'a', 1, 1, 'OOM'}, {'b', 1, 2, 10})).verdict") == "not run");
    // Times of 1 and 2 that are turned around, with quartiles that leave a quarter between them or do not.
    const auto turned_with = [&](const std::string& upper, const std::string& lower) {
        return lua("list = cells({'a', 1, 1, 30}, {'b', 1, 2, 10}) list[1].upper, list[2].lower = " + upper + ", " +
                   lower + " return v.same_order(list).verdict");
    };
    CHECK(turned_with("1.2", "1.6") == "differs");
    CHECK(turned_with("1.5", "1.6") == "undecided");
    CHECK(turned_with("1.5", "nil") == "differs");
    CHECK(turned_with("nil", "1.2") == "undecided");
    CHECK(lua("local r = v.constant_ratio(cells({'a', 1, 2, 1}, {'b', 1, 4.2, 2}, {'c', 1, 8, 4})) "
              "return r.verdict, r.value") == "holds 2.0");
    CHECK(lua("return v.constant_ratio(cells({'a', 1, 2, 1}, {'b', 1, 4, 2}, {'c', 1, 12, 4})).verdict") == "differs");
    CHECK(lua("return v.constant_ratio(cells({'a', 1, 2, 1})).verdict") == "not run");
    // A cell of 2.4 is within 25 % of 2 and one of 2.6 is not; with quartiles at 2.4 and 2.6 both may be said.
    const auto with_quartiles = [&](const std::string& ours, const std::string& lower, const std::string& upper) {
        return lua("list = cells({'a', 1, 2, 1}, {'b', 1, 2, 1}, {'c', 1, " + ours + ", 1}) list[3].lower, " +
                   "list[3].upper = " + lower + ", " + upper + " return v.constant_ratio(list).verdict");
    };
    CHECK(with_quartiles("2.4", "2.3", "2.45") == "holds");
    CHECK(with_quartiles("2.4", "2.3", "2.6") == "undecided");
    CHECK(with_quartiles("2.6", "2.4", "2.7") == "undecided");
    CHECK(with_quartiles("2.6", "2.55", "2.7") == "differs");
    CHECK(with_quartiles("1.5", "1.4", "1.55") == "differs");
    CHECK(
        lua("list[3].lower, list[3].upper = 1.5, 1.7 return v.constant_ratio(list).statistic") ==
        "machine factor 2; 2 of 3 cells within ± 25 % of it, 1 with quartiles on both sides; farthest c at 1: × 0.750");
}

TEST_CASE("a crossover is a span between two lengths", "[experiments][reproduce]") {
    Shell shell;
    Shell& lua = with_rules(shell);
    lua("a = {[1] = 1, [2] = 4, [4] = 16} b = {[1] = 2, [2] = 5, [4] = 10}");
    CHECK(lua("return table.unpack(v.overtakes(a, b))") == "2 4");
    CHECK(lua("return table.unpack(v.overtakes(b, a))") == "4 inf");
    CHECK(lua("return v.span_text(v.overtakes({[1] = 3}, {[1] = 2, [2] = 9}))") == "below 1");
    CHECK(lua("return v.overtakes({[1] = 3}, {[2] = 9})") == "nil");
    CHECK(lua("return v.same_crossover({2, 4}, {1, 3}).verdict, v.same_crossover({2, 4}, {4, 8}).verdict, "
              "v.same_crossover({2, math.huge}, {4, 8}).verdict, v.same_crossover(nil, {4, 8}).verdict") ==
          "holds differs undecided not run");
    const auto with_quartiles = [&](const std::string& ours, const std::string& early, const std::string& late) {
        return lua("return v.same_crossover(" + ours + ", {4, 8}, " + early + ", " + late + ").verdict");
    };
    CHECK(with_quartiles("{4, 8}", "{4, 8}", "{4, 8}") == "holds");
    CHECK(with_quartiles("{4, 8}", "{2, 4}", "{4, 8}") == "undecided");
    CHECK(with_quartiles("{4, 8}", "{4, 8}", "{8, math.huge}") == "undecided");
    CHECK(with_quartiles("{2, 4}", "{2, 4}", "{4, 8}") == "undecided");
    CHECK(with_quartiles("{2, 4}", "{1, 2}", "{2, 4}") == "differs");
    CHECK(with_quartiles("{8, 16}", "{8, 16}", "{8, math.huge}") == "differs");
    CHECK(with_quartiles("{2, 4}", "{1, 2}", "{8, 16}") == "undecided");
    CHECK(lua("return v.same_crossover({4, 8}, {4, 8}, {2, 4}, {4, 8}).statistic") ==
          "between 4 and 8 here, between 4 and 8 printed; by quartiles between 2 and 4 or between 4 and 8");
    CHECK(lua("return v.near(1.2, 1).verdict, v.near(1.3, 1).verdict, v.near(1.02, 1, 0.01).verdict, "
              "v.equal(3, 3).verdict, v.equal(3, 4).verdict") == "holds differs differs holds differs");
}

TEST_CASE("every printed table and every item has its script", "[experiments][reproduce]") {
    const std::set<std::string> known = items();
    int tables = 0;
    for (const auto& file : std::filesystem::recursive_directory_iterator(experiments + "data/reference")) {
        if (file.path().extension() != ".csv") continue;
        ++tables;
        const std::string id = file.path().parent_path().filename().string() + "/" + file.path().stem().string();
        CAPTURE(id);
        CHECK(known.count(id) == 1);
    }
    CHECK(tables == 20);
    for (const std::string& id : known) {
        CAPTURE(id);
        CHECK(std::filesystem::exists(experiments + id + ".lua"));
    }
    for (const char* id : {"fleet/figure2", "leet/listing1", "leet/listing2", "gates/views", "gates/tradeoff",
                           "gates/rules", "tpu/figure1", "tree/figure2", "tree/figure3", "tree/figure4", "tree/volume"})
        CHECK(known.count(id) == 1);
}

TEST_CASE("lengths are read as they are printed", "[experiments][reproduce]") {
    Shell lua;
    lua("r = dofile('" + experiments + "lib/reference.lua')");
    CHECK(lua("return r.tokens(8192), r.tokens('8k'), r.tokens('8k', 1024), r.tokens('5.12M')") ==
          "8192 8000 8192 5120000");
    CHECK(contains(lua("r.tokens('8 k')"), "reference: \"8 k\", expected a length such as 8k"));
    CHECK(lua("return r.quoted('" + experiments + "', 'leet', 'replications')") == "15");
    CHECK(contains(lua("r.quoted('" + experiments + "', 'leet', 'x')"), "leet has no quoted figure \"x\""));
}

TEST_CASE("a table of latencies has a number or a reason in every cell", "[experiments][reproduce]") {
    const TemporaryFolder folder;
    const std::vector<std::string> command{
        experiments + "leet/table4.lua", "--quick", "--lengths", "128,512,100000", "--heads", "1", "--width", "8"};
    const Output output = run_in(folder, command);
    CAPTURE(output.err, output.out);
    CHECK(output.status == 0);
    CHECK(too_wide(output.out, 80) == "");
    const json item = json::parse(read_bytes(folder / "results/leet/table4/item.json"));
    CHECK(item["command"] == "./lab experiments/leet/table4.lua --quick --lengths 128,512,100000 --heads 1 --width 8");
    CHECK(item["memory"].get<double>() > 1e6);
    CHECK(item["origin"].contains("processor"));
    int measured = 0, reasons = 0;
    for (const auto& part : item["parts"]) {
        if (!part.contains("rows") || !part["rows"][0].contains("ours")) continue;
        CHECK(part["rows"].size() == 63);
        for (const auto& row : part["rows"]) {
            REQUIRE(row.contains("printed"));
            const auto& ours = row["ours"];
            if (ours.is_number()) {
                CHECK(ours.get<double>() > 0);
                CHECK(row["samples"].get<int>() >= 1);
                ++measured;
            } else {
                CHECK(ours.get<std::string>() != "");
                ++reasons;
            }
        }
    }
    CHECK(measured == 16);  // eight methods at two lengths
    CHECK(reasons == 47);
    int controls = 0;
    for (const auto& part : item["parts"]) {
        if (!part.contains("rows") || !part["rows"][0].contains("package")) continue;
        for (const auto& row : part["rows"]) {
            const auto& time = row["time"];
            if (time.is_string()) CHECK((time == "refused: no NumPy" || time == "refused: no PyTorch"));
            else CHECK((time.get<double>() > 0 && row["samples"].get<int>() >= 1));
            ++controls;
        }
    }
    CHECK(controls == 4);  // NumPy and PyTorch at the lengths of Vanilla
    CHECK(contains(output.out, "longer than --quick goes"));
    CHECK(contains(read_bytes(folder / "results/leet/table4/table4.html"), "printed × "));
}

TEST_CASE("reproduce runs items, judges them and writes one page", "[experiments][reproduce]") {
    const TemporaryFolder folder;
    const Output output = reproduce(folder, {"--quick", "--only", "tpu/quoted,leet/table2,gates"});
    CAPTURE(output.err, output.out);
    CHECK(output.status == 0);
    CHECK(too_wide(output.out, 80) == "");
    const std::string place = folder / "results/reproduce/";
    const json verdicts = json::parse(read_bytes(place + "verdicts.json"));
    std::set<std::string> ids, words, documents;
    for (const auto& v : verdicts) {
        CHECK(ids.insert(v["id"]).second);
        words.insert(v["verdict"]);
        documents.insert(v["document"]);
        for (const char* field : {"item", "command", "statistic", "what"}) CHECK(v[field].get<std::string>() != "");
        CHECK(v.contains("origin"));
    }
    CHECK(documents == std::set<std::string>{"fleet", "gates", "leet", "tpu", "tree"});
    CHECK(words == std::set<std::string>{"holds", "not run"});
    CHECK(ids.count("tpu/quoted/outer-product-penalty") == 1);
    const std::string page = read_bytes(place + "index.html");
    for (const char* part :
         {"<a href=\"#tpu-quoted\">", "<h3 id=\"tpu-quoted\">", "left out by --only",
          "./lab experiments/leet/table2.lua --quick", "/proofs/tpu.md", "data-form=\"LaTeX\"", "<svg"}) {
        CAPTURE(part);
        CHECK(contains(page, part));
    }
    for (const char* part : {"src=", "<link", "http://", "https://"}) {
        // The name space of SVG is an address that nothing loads.
        std::string without = page;
        for (std::size_t at; (at = without.find("http://www.w3.org/")) != std::string::npos;) without.erase(at, 18);
        CAPTURE(part);
        CHECK_FALSE(contains(without, part));
    }

    SECTION("another run stands beside, from its items or its verdicts") {
        std::filesystem::rename(place, folder / "first");
        const Output beside = reproduce(folder, {"--quick", "--only", "tpu/quoted", "--compare", "first/items.json"});
        CAPTURE(beside.err);
        CHECK(beside.status == 0);
        CHECK(contains(read_bytes(place + "index.html"), "statistic there"));
        CHECK(contains(beside.out, "Of 1 verdicts that both runs have, 1 are the same and 0 are not."));
        json changed = json::parse(read_bytes(folder / "first/items.json"));
        for (json& one : changed["items"])
            for (json& v : one["verdicts"])
                if (one["document"] == "tpu" && one["name"] == "quoted") v["verdict"] = "differs";
        write_bytes(folder / "changed.json", changed.dump());
        const Output other = reproduce(folder, {"--page", "--compare", "changed.json"});
        CHECK(contains(other.out, "Of 1 verdicts that both runs have, 0 are the same and 1 are not."));
        CHECK(contains(read_bytes(place + "index.html"), "Verdicts that are not the same"));
        CHECK(reproduce(folder, {"--page", "--compare", experiments + "data/runs/cpu-quick.json"}).status == 0);
        const json kept = json::parse(read_bytes(experiments + "data/runs/cpu-quick.json"));
        const std::string day = kept["items"][0]["date"].get<std::string>().substr(0, 10);
        CHECK(contains(read_bytes(place + "index.html"),
                       "Beside " + kept["items"][0]["origin"]["processor"].get<std::string>() + ", " + day));
        CHECK(reproduce(folder, {"--page", "--compare", "first/verdicts.json"}).status == 0);
        const Output none = reproduce(folder, {"--page", "--compare", "first/index.html"});
        CHECK(none.status == 2);
        CHECK(none.err ==
              "error: --compare: \"first/index.html\", expected an items.json or verdicts.json of "
              "reproduce.lua\n");
    }
    SECTION("a run that was stopped goes on, a finished one starts again") {
        const std::string kept = place + "leet/table2/item.json";
        json item = json::parse(read_bytes(kept));
        item["date"] = "before";
        write_bytes(kept, item.dump());
        write_bytes(place + "running.json",
                    R"({"runs": {"quick cpu leet/table2,tpu/quoted": {"finished": ["leet/table2", "tpu/quoted"]}}})");
        std::filesystem::remove(place + "tpu/quoted/item.json");
        const Output on = reproduce(folder, {"--quick", "--only", "leet/table2,tpu/quoted"});
        CHECK(on.status == 0);
        CHECK(contains(on.out, "1 of 2 items were finished before"));
        CHECK(json::parse(read_bytes(kept))["date"] == "before");
        CHECK(std::filesystem::exists(place + "tpu/quoted/item.json"));
        CHECK_FALSE(std::filesystem::exists(place + "running.json"));
        CHECK(reproduce(folder, {"--quick", "--only", "leet/table2,tpu/quoted"}).status == 0);
        CHECK(json::parse(read_bytes(kept))["date"] != "before");
    }
}

TEST_CASE("rows of an earlier run are kept for the items that the stopped run had begun, and for no others",
          "[experiments][reproduce]") {
    const TemporaryFolder folder;
    const std::vector<std::string> command{"--quick", "--only", "fleet/table4"};
    REQUIRE(reproduce(folder, command).status == 0);
    const std::string place = folder / "results/reproduce/";
    const auto stopped = [&](const std::string& begun) {
        std::filesystem::remove(place + "fleet/table4/item.json");
        replace_medians(place + "fleet/table4/quick/rows.jsonl", "0.125");
        write_bytes(place + "running.json", R"({"runs": {"quick cpu fleet/table4": {"begun": [)" + begun + "]}}}");
    };
    const auto kept = [&] {
        REQUIRE(reproduce(folder, command).status == 0);
        const json item = json::parse(read_bytes(place + "fleet/table4/item.json"));
        CHECK(item["command"] == "./lab experiments/fleet/table4.lua --quick");
        std::size_t from_before = 0;
        for (const json& row : item["parts"][0]["rows"]) from_before += row["here"] == 256 / 0.125;
        CHECK(item["parts"][0]["rows"].size() == 6);
        return from_before;
    };
    stopped(R"("fleet/table4")");
    CHECK(kept() == 6);
    stopped("");
    CHECK(kept() == 0);
    CHECK(run_in(folder, {experiments + "fleet/table4.lua", "--resume", "--fresh"}).err ==
          "error: --resume: given together with --fresh, expected one of them\n");
}

TEST_CASE("a run that is killed leaves nothing behind that runs, and goes on", "[experiments][reproduce]") {
    const TemporaryFolder folder;
    const pid_t process =
        start_program(folder, {experiments + "reproduce.lua", "--quick", "--only", "leet/table2,leet/table4"});
    const std::string place = folder / "results/reproduce/leet/table4/quick/rows.jsonl";
    REQUIRE(wait_for_file(place));
    const auto rows = [&] {
        const std::string text = read_bytes(place);
        return std::count(text.begin(), text.end(), '\n');
    };
    for (int tries = 0; rows() < 6 && tries < 2000; ++tries) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    REQUIRE(kill(process, SIGKILL) == 0);
    REQUIRE(waitpid(process, nullptr, 0) == process);
    if (std::system("setpriv --pdeathsig KILL true > /dev/null 2>&1") == 0) {
        // The item would go on for some seconds.
        for (int tries = 0; in_use(folder.path()) && tries < 100; ++tries)
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        CHECK_FALSE(in_use(folder.path()));
    }
    const auto before = rows();
    CHECK(before >= 6);
    const Output on = reproduce(folder, {"--quick", "--only", "leet/table2,leet/table4"});
    CAPTURE(on.err);
    CHECK(on.status == 0);
    CHECK(contains(on.out, "1 of 2 items were finished before"));
    const json item = json::parse(read_bytes(folder / "results/reproduce/leet/table4/item.json"));
    CHECK(item["resumed"] == true);
    CHECK(contains(read_bytes(folder / "results/reproduce/index.html"), " since it went on"));
}

TEST_CASE("accuracy of a trained model is the same with every exact method", "[experiments][reproduce]") {
    const TemporaryFolder folder;
    const Output output = run_in(folder, {experiments + "fleet/table3.lua", "--quick", "--length", "64"});
    CAPTURE(output.err, output.out);
    CHECK(output.status == 0);
    CHECK(too_wide(output.out, 80) == "");
    const json item = json::parse(read_bytes(folder / "results/fleet/table3/item.json"));
    const json& rows = item["parts"][1]["rows"];
    REQUIRE(rows.size() == 6);
    for (const json& row : rows) {
        // The whole held-out text has 1.417 bits a byte and 70.1 %.
        CHECK(row["average"].get<double>() == Approx(70.1).margin(3));
        CHECK(row["bits"].get<double>() == Approx(1.417).margin(0.1));
        CHECK(row["bits"].get<double>() == Approx(rows[0]["bits"].get<double>()).epsilon(1e-5));
    }
    for (const json& v : item["verdicts"]) CHECK(v["verdict"] == "holds");
}

TEST_CASE("a table of whole models has a time or a reason in every cell", "[experiments][reproduce]") {
    const TemporaryFolder folder;
    const Output output = run_in(folder, {experiments + "leet/table8.lua", "--quick"});
    CAPTURE(output.err, output.out);
    CHECK(output.status == 0);
    CHECK(too_wide(output.out, 80) == "");
    const json item = json::parse(read_bytes(folder / "results/leet/table8/item.json"));
    const json& rows = item["parts"][0]["rows"];
    REQUIRE(rows.size() == 20);
    for (const json& row : rows) {
        CAPTURE(row.dump());
        if (row["method"] == "LA_torch") CHECK(row["here"] == "LA has one form on the CPU");
        else CHECK((row["here"].is_string() || row["here"].get<double>() > 0));
        if (row["method"] == "Original") CHECK(row["printed_share"].get<double>() == 1);
    }
    for (const json& v : item["verdicts"])
        if (v["what"] == "order of methods") CHECK(v["verdict"] == "not run");
    // Six layers of four heads; a product with every weight but the embeddings, 256 rows of 256.
    Shell lua;
    const double attention =
        std::stod(lua("c = cost('vanilla', {N = 128, r = 64, d = 128, decay = true}) "
                      "return 6 * 4 * (c.multiplies + c.adds)"));
    const double weights = 2.0 * 128 * (5639424 - 256 * 256);
    int shares = 0;
    for (const json& part : item["parts"]) {
        if (!part.contains("rows") || part["rows"].size() != 8) continue;
        for (const json& row : part["rows"]) {
            ++shares;
            if (row["method"] == "Vanilla")
                CHECK(row["attention"].get<double>() == Approx(100 * attention / (attention + weights)));
        }
    }
    CHECK((shares == 8 || contains(output.out, "timeout")));
    CHECK(item["processor_seconds"].get<double>() > 0);
    CHECK(item["others"].get<double>() <= 1);
}

// A model that notes how it was asked for, and of which tokens logits were asked, in the place of one on a GPU.
TEST_CASE("times of whole models on a GPU are of the large prompts, in Float32, without copying logits",
          "[experiments][reproduce]") {
    Shell lua;
    lua("models = dofile('" + experiments +
        "lib/model_runner.lua') asked, real = {}, model "
        "function model(o) asked.model = o.device .. ' ' .. o.type o.device, o.type = nil, 'f32' local m = real(o) "
        "return setmetatable({}, {__index = function(_, name) return function(_, a, b) "
        "if name == 'logits' and #a[1] > 64 then asked[#a] = b.last end return m[name](m, a, b) end end}) end "
        "item = {mode = 'quick', options = {device = 'gpu'}, sweep = function(_, o) return sweep(o) end} "
        "what = {arch = 'transnormer', size = 'tiny', length = 96, batches = {1, 2}, "
        "methods = {'own', 'lightning-attention-2', 'none'}} time = models.times(item, what)");
    CHECK(lua("return asked.model, asked[1], asked[2]") == "gpu f32 true true");
    CHECK(lua("a, b = time('own', 1), time('lightning-attention-2', 2) return a.seconds > 0, a.samples > 0, "
              "a.attention, b.seconds > 0") == "true true nil true");
    CHECK(lua("return time('none', 1)").starts_with("refused: with: nothing is named \"none\", expected"));
    // Neither the table of embeddings nor that of the output is a product for each token: 256 rows of 256.
    CHECK(
        lua("m, n = real{arch = 'transnormer', size = 'tiny', weights = 'random'}, 0 for _, l in ipairs(m:layers()) do "
            "c = cost('lightning-attention-2', {N = 96, r = l.width, d = l.value_width, decay = true}) "
            "n = n + l.heads * (c.multiplies + c.adds) end weights = m:about().parameters - 2 * 256 * 256 "
            "return math.abs(b.attention / (n / (n + 2 * 96 * weights)) - 1) < 1e-12") == "true");
    lua("sizes = {quick = 1, standard = 2, full = 3} function size_in(mode, device) return models.size({mode = mode, "
        "options = {device = device}}, sizes) end");
    CHECK(lua("return size_in('quick', 'gpu'), size_in('standard', 'gpu'), size_in('standard', 'cpu')") == "1 3 2");
}

TEST_CASE("a model that does not fit says how much memory it takes", "[experiments][reproduce]") {
    const TemporaryFolder folder;
    const Output output = run_in(folder, {experiments + "tree/table1.lua", "--quick"});
    CAPTURE(output.err, output.out);
    CHECK(output.status == 0);
    CHECK(too_wide(output.out, 80) == "");
    const json item = json::parse(read_bytes(folder / "results/tree/table1/item.json"));
    int reasons = 0;
    for (const json& part : item["parts"]) {
        if (!part.contains("rows") || !part["rows"][0].contains("here")) continue;
        for (const json& row : part["rows"]) {
            const std::string here = row["here"];
            CHECK((contains(here, "OOM (") || contains(here, "operations")));
            // 8.03 G parameters in BFloat16, and two times 32 layers of 8 heads of 128 Float32 a token.
            if (row["N"] == 256000 && contains(here, "OOM (")) CHECK(contains(here, "OOM (77.5 GiB of "));
            ++reasons;
        }
    }
    CHECK(reasons == 8);
    CHECK(contains(output.out, "Seconds for ten tokens here: llama tiny, 8 shards"));
    int cells = 0;
    for (const json& part : item["parts"]) {
        if (!part.contains("rows") || !part["rows"][0].contains("samples")) continue;
        for (const json& row : part["rows"]) {
            CHECK(row["samples"].get<int>() >= 1);
            CHECK(row["lower"].get<double>() <= row["time"].get<double>());
            CHECK(row["time"].get<double>() <= row["upper"].get<double>());
            ++cells;
        }
    }
    CHECK(cells == 6);  // three lengths, tree and ring
}

TEST_CASE("what experiments share: text in lines, a middle, exact blocks", "[experiments]") {
    Shell lua;
    lua("folder = '" + experiments +
        "lib/' wrapped = dofile(folder .. 'wrapped.lua') middle = dofile(folder .. "
        "'middle.lua') exact_blocks = dofile(folder .. 'exact_blocks.lua')");
    CHECK(lua("return wrapped('ab cd ef\\n  in columns stays\\nα β', 5)") == "ab cd\nef\n  in columns stays\nα β");
    CHECK(lua("list = {3, 1, 4, 2} return middle(list), list[1], list[4], middle({5, 7, 6})") == "2 1 4 6");
    // Queries 1 and 2 are in blocks 1 and 2, keys 1 and 2 both in block 1: both pairs of the second query are
    // estimated.
    for (const char* type : {"f32", "f64"}) {
        CAPTURE(type);
        CHECK(lua(std::string("got = exact_blocks(zeros(1, 1, 2, 2, '") + type + "'), ones(1, 1, 2, 2, '" + type +
                  "'), {query_block = tensor{1, 2}:reshape(1, 1, 2), key_block = tensor{1, 1}:reshape(1, 1, 2)}) "
                  "return got(1, 1, 1, 1), got(1, 1, 1, 2), got(1, 1, 2, 1), got(1, 1, 2, 2)") == "1.0 1.0 0.0 0.0");
    }
}

TEST_CASE("an item says what other programs took of the machine", "[experiments][reproduce]") {
    Shell lua;
    lua("p = dofile('" + experiments + "lib/processors.lua')");
    lua("taken = p() local until_then = os.clock() + 0.2 while os.clock() < until_then do end own, others = taken()");
    CHECK(lua("return own >= 0.15 and own < 5, others >= 0 and others <= 1") == "true true");
    // Processors that this process may not run on, 0 and 4 here, do not count: of 400 ticks of the others 100 were its
    // own and 80 of other programs.
    const TemporaryFolder proc;
    std::filesystem::create_directory(proc.path() + "/self");
    const auto write = [&](const std::string& name, const std::string& text) {
        std::ofstream(proc.path() + "/" + name) << text;
    };
    write("self/status", "Name:\tcauseway\nCpus_allowed_list:\t1-2,3,5\n");
    write("self/stat", "1 (a b) R 0 0 0 0 0 0 0 0 0 0 10 5 3 2 0\n");
    const std::string idle = " 0 0 0 0 0 0 0 0 0 0\n";
    write("stat",
          "cpu  0 0\ncpu0" + idle + "cpu1" + idle + "cpu2" + idle + "cpu3" + idle + "cpu4" + idle + "cpu5" + idle);
    lua("taken = p('" + proc.path() + "')");
    write("self/stat", "1 (a b) R 0 0 0 0 0 0 0 0 0 0 80 25 10 5 0\n");
    const std::string busy = " 100 0 0 0 0 0 0 0 0 0\n";
    write("stat", "cpu  999 0\ncpu0" + busy +
                      "cpu1 60 10 30 0 0 0 0 0 0 0\ncpu2 30 0 20 40 10 0 0 0 9 0\ncpu3 10 0 0 90 0 0 0 "
                      "0 0 0\ncpu4" +
                      busy + "cpu5 5 5 5 80 0 3 1 1 0 0\n");
    CHECK(lua("own, others = taken() return own, string.format('%.3f', others)") == "1.0 0.200");
    lua("page = dofile('" + experiments + "lib/item_page.lua') time = {{kind = 'time', verdict = 'holds'}}");
    CHECK(lua("return page.in_use{verdicts = time, others = 0.634}") ==
          "Other programs took 63 % of the processors meanwhile: its times are of a machine in use.");
    CHECK(lua("return page.in_use{verdicts = time, others = 0.05}, page.in_use{verdicts = time}, "
              "page.in_use{verdicts = {{kind = 'count', verdict = 'holds'}}, others = 0.9}, "
              "page.in_use{verdicts = {{kind = 'time', verdict = 'not run'}}, others = 0.9}") == "nil nil nil nil");
}

TEST_CASE("the tables of the README and of docs are those of the run that is kept", "[experiments][reproduce]") {
    Shell lua;
    lua("p = dofile('" + experiments + "lib/published.lua') file = io.open('" + experiments +
        "data/runs/cpu-quick.json') run = json_decode(file:read('a')) file:close()");
    const std::string front = lua("return p.front(run)"), map = lua("return p.map(p.kept('" + experiments + "'))");
    // A line for each item of each run that is kept, with its machine.
    CHECK(lua("_, lines = p.map({run, run}):gsub('threads of', '') return lines, #run.items") == "64 31");
    const auto between_marks = [](const std::string& path) {
        const std::string page = read_bytes(path), begin = "<!-- reproduced -->\n",
                          end = "\n<!-- end of reproduced -->";
        const std::size_t from = page.find(begin), to = page.find(end);
        REQUIRE(from != std::string::npos);
        REQUIRE(to != std::string::npos);
        return page.substr(from + begin.size(), to - from - begin.size());
    };
    CHECK(between_marks(source_dir() + "/README.md") == front);
    CHECK(between_marks(source_dir() + "/docs/reproduction.md") == map);
    std::set<std::string> kept;
    std::istringstream words(
        lua("t = {} for i, item in ipairs(run.items) do t[i] = item.document .. '/' .. item.name "
            "end return table.unpack(t)"));
    for (std::string id; words >> id;) kept.insert(id);
    CHECK(kept == items());
    // Times of a machine in use have no column; of an idle one they have.
    CHECK(lua("for _, item in ipairs(run.items) do item.others = 0.9 end return p.front(run):find('| on times', 1, "
              "true) == nil") == "true");
    CHECK(lua("for _, item in ipairs(run.items) do item.others = 0 end return p.front(run):find('| on times', 1, true) "
              "~= nil") == "true");
}

TEST_CASE("a page is made from the run that is kept", "[experiments][reproduce]") {
    const TemporaryFolder folder;
    const Output output = reproduce(folder, {"--from", experiments + "data/runs/cpu-quick.json"});
    CAPTURE(output.err, output.out);
    CHECK(output.status == 0);
    const std::string page = read_bytes(folder / "results/reproduce/index.html");
    CHECK_FALSE(std::regex_search(page, std::regex("<td[^>]*></td>")));
    for (const char* part : {"fleet, Table 2", "tree, Table 2", "./lab experiments/leet/table7.lua --quick"})
        CHECK(contains(page, part));
    const json kept = json::parse(read_bytes(experiments + "data/runs/cpu-quick.json"));
    std::size_t count = 0;
    for (const json& item : kept["items"]) count += item["verdicts"].size();
    CHECK(json::parse(read_bytes(folder / "results/reproduce/verdicts.json")).size() == count);
    write_bytes(folder / "none.json", "[]");
    CHECK(reproduce(folder, {"--from", "none.json"}).err ==
          "error: --from: \"none.json\" has no items, expected an items.json of reproduce.lua\n");
}

TEST_CASE("a run is published whole and in one mode", "[experiments][reproduce]") {
    // In a copy, where a run that should be refused could be published.
    const TemporaryFolder folder;
    const auto copy = [&](const std::string& path) {
        std::filesystem::create_directories(std::filesystem::path(folder / path).parent_path());
        std::filesystem::copy(source_dir() + "/" + path, folder / path, std::filesystem::copy_options::recursive);
    };
    for (const char* path :
         {"README.md", "docs/reproduction.md", "experiments/reproduce.lua", "experiments/lib", "experiments/data/runs"})
        copy(path);
    json run = json::parse(read_bytes(experiments + "data/runs/cpu-quick.json"));
    for (const json& item : run["items"]) {
        const std::string place =
            "results/reproduce/" + item["document"].get<std::string>() + "/" + item["name"].get<std::string>();
        std::filesystem::create_directories(folder / place);
        write_bytes(folder / (place + "/item.json"), item.dump());
    }
    const auto publish = [&](std::vector<std::string> options) {
        options.insert(options.begin(), {"experiments/reproduce.lua", "--page", "--publish"});
        return run_in(folder, options);
    };
    const Output refused = publish({});
    CHECK(refused.status == 1);
    CHECK(contains(refused.err,
                   "nothing is published, for these items are of another mode than standard or not of "
                   "the cpu: fleet/table1, "));
    CHECK_FALSE(std::filesystem::exists(folder / "experiments/data/runs/cpu-standard.json"));
    const std::string map = read_bytes(folder / "docs/reproduction.md");
    write_bytes(folder / "docs/reproduction.md", "<!-- reproduced -->\n\n<!-- end of reproduced -->");
    CHECK(publish({"--quick"}).status == 0);
    CHECK(contains(map, read_bytes(folder / "docs/reproduction.md")));

    // In pieces, with --only: an item takes its place in the run that is kept, and the others stay as they are.
    const auto leave = [&](std::size_t i, double seconds) {
        json item = run["items"][i];
        item["mode"] = "standard", item["seconds"] = seconds, item["resumed"] = i == 2;
        const std::string id = item["document"].get<std::string>() + "/" + item["name"].get<std::string>();
        write_bytes(folder / ("results/reproduce/" + id + "/item.json"), item.dump());
        return id;
    };
    const auto kept_seconds = [&] {
        std::vector<double> list;
        const json kept = json::parse(read_bytes(folder / "experiments/data/runs/cpu-standard.json"));
        for (const json& item : kept["items"])
            list.push_back(item["title"] == "not run" ? -1 : item["seconds"].get<double>());
        return list;
    };
    std::vector<double> expected(run["items"].size(), -1);
    const std::string first = leave(0, 60), third = leave(2, 120);
    CHECK(publish({"--only", first}).status == 0);
    expected[0] = 60;
    CHECK(kept_seconds() == expected);
    leave(0, 180);  // which is not published again
    CHECK(publish({"--only", third}).status == 0);
    expected[2] = 120;
    CHECK(kept_seconds() == expected);
    const std::string of_both = read_bytes(folder / "docs/reproduction.md");
    CHECK(contains(of_both, "\n2 items in more than 3.0 minutes, "));
    CHECK(contains(of_both, "| 1.00 | "));
    CHECK(contains(of_both, "| > 2.00 | "));
    const Output mixed = publish({"--only", "fleet/table1,fleet/table2"});
    CHECK(mixed.status == 1);
    CHECK(contains(mixed.err, "of another mode than standard or not of the cpu: fleet/table2\n"));
    CHECK(kept_seconds() == expected);
}

TEST_CASE("a run that was stopped is left alone by others", "[experiments][reproduce]") {
    const TemporaryFolder folder;
    const std::string place = folder / "results/reproduce/";
    std::filesystem::create_directories(place);
    write_bytes(place + "running.json",
                R"({"runs": {"quick cpu leet/table2,tpu/quoted": {"begun": ["leet/table2"]}}, "process": 0})");
    const Output other = reproduce(folder, {"--only", "gates/views"});
    CHECK(other.status == 2);
    CHECK(other.err ==
          "error: --save: in results/reproduce a run was stopped, with --quick --only leet/table2,tpu/quoted; its "
          "command goes on, --fresh drops it, another folder leaves it alone\n");
    CHECK(reproduce(folder, {"--quick", "--only", "gates/views"}).status == 0);
    const json note = json::parse(read_bytes(place + "running.json"));
    CHECK(note["runs"].contains("quick cpu leet/table2,tpu/quoted"));
    CHECK(note["runs"].size() == 1);
    CHECK(reproduce(folder, {"--fresh", "--only", "gates/views"}).status == 0);
    CHECK_FALSE(std::filesystem::exists(place + "running.json"));

    const pid_t process = start_program(folder, {experiments + "reproduce.lua", "--quick", "--only", "leet/table4"});
    REQUIRE(wait_for_file(place + "leet/table4/quick/rows.jsonl"));
    const Output second = reproduce(folder, {"--quick", "--only", "gates"});
    CHECK(second.status == 2);
    CHECK(second.err == "error: --save: process " + std::to_string(process) +
                            " is reproducing into results/reproduce, expected its end or another folder\n");
    REQUIRE(kill(process, SIGKILL) == 0);
    REQUIRE(waitpid(process, nullptr, 0) == process);
}

TEST_CASE("files of a run that are damaged cost a sentence, and nothing that was there", "[experiments][reproduce]") {
    const TemporaryFolder folder;
    const std::string place = folder / "results/reproduce/";
    REQUIRE(reproduce(folder, {"--quick", "--only", "gates/views"}).status == 0);
    const std::string before = read_bytes(place + "items.json");
    const json good = json::parse(read_bytes(experiments + "data/runs/cpu-quick.json"));
    const auto refused = [&](const std::string& option, const json& run) {
        write_bytes(folder / "run.json", run.dump());
        const Output output = reproduce(folder, {"--" + option, "run.json"});
        CAPTURE(option, run.dump().substr(0, 80), output.err);
        CHECK(output.status == 2);
        CHECK(std::count(output.err.begin(), output.err.end(), '\n') == 1);
        CHECK(contains(output.err, "error: --" + option + ": \"run.json\" has "));
    };
    const auto with = [&](const char* field, const json& value) {
        json run = good;
        run["items"][0][field] = value;
        return run;
    };
    for (const char* option : {"from", "compare"}) {
        for (const json& run :
             {json::parse("5"), json::parse("[]"), json::parse(R"({"items": 5})"), json::parse(R"({"items": ["a"]})"),
              json::parse(R"({"mode": "quick", "device": "cpu", "items": []})"), with("parts", nullptr),
              with("verdicts", json::parse(R"([{"what": "x", "kind": "time", "verdict": "banana"}])")),
              with("origin", 5), with("seconds", "x"), with("claims", json::parse("[1]")), with("document", "other")})
            refused(option, run);
    }
    refused("compare", json::parse(R"([{"id": 1}])"));
    CHECK(reproduce(folder, {"--from", ""}).err == "error: --from: \"\", expected the name of a file\n");
    CHECK(read_bytes(place + "items.json") == before);
    // Before anything is run.
    CHECK(reproduce(folder, {"--quick", "--compare", "none.json"}).status == 2);

    for (const char* note : {"null", "5", R"({"runs": 5})", R"({"runs": {"x": 1, "quick cpu gates/views": 5}})"}) {
        write_bytes(place + "running.json", note);
        CHECK(reproduce(folder, {"--quick", "--fresh", "--only", "gates/views"}).status == 0);
    }
    write_bytes(place + "gates/views/item.json", R"({"verdicts": []})");
    CHECK(contains(reproduce(folder, {"--quick", "--page"}).out, "31 not run."));
    const Output nowhere = reproduce(folder, {"--quick", "--only", "gates/views", "--save", "/proc/nope"});
    CHECK(nowhere.status == 1);
    CHECK(nowhere.err == "error: cannot make the folder /proc/nope: No such file or directory\n");

    // One item of many is no whole run.
    json few = good;
    few["items"] = json::array({good["items"][0]});
    write_bytes(folder / "run.json", few.dump());
    const Output part = reproduce(folder, {"--from", "run.json", "--publish"});
    CHECK(part.status == 1);
    CHECK(contains(part.err, "--publish: nothing is published, for these items have not finished: fleet/table2"));
}

TEST_CASE("which is faster is undecided between times that are close", "[experiments][reproduce]") {
    Shell lua;
    lua("v = dofile('" + experiments + "lib/verdicts.lua')");
    const auto fastest = [&](const std::string& times) {
        return lua("return v.fastest('a', {" + times + "}).verdict");
    };
    CHECK(fastest("{method = 'a', time = 1}, {method = 'b', time = 1.3}") == "holds");
    CHECK(fastest("{method = 'a', time = 1}, {method = 'b', time = 1.2}") == "undecided");
    CHECK(fastest("{method = 'a', time = 1.2}, {method = 'b', time = 1}, {method = 'c', time = 9}") == "undecided");
    CHECK(fastest("{method = 'a', time = 1.3}, {method = 'b', time = 1}") == "differs");
    CHECK(fastest("{method = 'a', time = 'OOM'}, {method = 'b', time = 1}") == "not run");
    CHECK(lua("return v.at_least(93.8, 100, '').verdict") == "undecided");
    CHECK(lua("return v.at_least(79, 100, '').verdict") == "differs");
    CHECK(lua("return v.at_least(100, 100, '').verdict") == "holds");
    CHECK(lua("return v.always_faster({1.5, 1.3}, 'x').verdict") == "holds");
    CHECK(lua("return v.always_faster({1.5, 1.2}, 'x').verdict") == "undecided");
    CHECK(lua("return v.always_faster({1.5, 0.7}, 'x').verdict") == "differs");
}

TEST_CASE("links to claims lead to proofs from any folder", "[experiments][reproduce]") {
    Shell lua;
    lua("p = dofile('" + experiments + "lib/item_page.lua')");
    const auto link = [&](const std::string& root, const std::string& page) {
        return lua("return p.claim_link('B1', '" + root + "', '" + page + "')");
    };
    CHECK(link("experiments", "results/x") == "../../proofs/exact.md");
    CHECK(link("experiments", "./results/./x") == "../../proofs/exact.md");
    CHECK(link("/a/experiments", "/a/results/x") == "../../proofs/exact.md");
    CHECK(link("/a/experiments", "/b/x") == "../../a/proofs/exact.md");
    CHECK(contains(link(".", "e"), "/proofs/exact.md"));
    CHECK(link("experiments", "../out").substr(0, 3) == "../");
}

TEST_CASE("an empty cell is an error", "[experiments][reproduce]") {
    Shell lua;
    lua("item = dofile('" + experiments + "lib/item.lua')({}, {document = 'leet', name = 'table1', title = 'x'})");
    CHECK(contains(lua("item:table({{a = 1, b = 2}, {a = 3}}, {title = 'T', columns = {'a', {key = 'b'}}}, true)"),
                   "leet/table1: row 2 of \"T\" has nothing in the column b, expected a number or a reason"));
    CHECK(contains(lua("item:table({{a = ''}}, {columns = {'a'}}, true)"), "row 1 of \"a table\" has nothing"));
    CHECK(lua("item:table({{a = 'OOM'}}, {columns = {'a'}}, true) return #item.parts") == "1");
}

TEST_CASE("rows of an item that are damaged cost the one who runs it alone a sentence", "[experiments][reproduce]") {
    const TemporaryFolder folder;
    std::filesystem::create_directory(folder / "quick");
    write_bytes(folder / "quick/rows.jsonl", "{\"cut\n");
    write_bytes(folder / "one.lua", "local item = dofile('" + experiments +
                                        "lib/item.lua')(arg, {document = 'leet', name = 'table1', title = 'x'})\n"
                                        "item:sweep{grid = {N = {1}}, run = function(p) return {y = p.N} end}\n");
    const Output output = run_in(folder, {"one.lua", "--quick", "--save", "."});
    CHECK(output.status == 1);
    CHECK(output.err ==
          "error: sweep: ./quick/rows.jsonl, line 1 is not a row; repair the file or start again with --fresh\n");
    CHECK(run_in(folder, {"one.lua", "--quick", "--save", ".", "--fresh"}).status == 0);
}

TEST_CASE("reproduce refuses what it does not know", "[experiments][reproduce]") {
    const TemporaryFolder folder;
    CHECK(reproduce(folder, {"--only", "leet/table10"}).err ==
          "error: --only: \"leet/table10\", expected a document or an item such as fleet or leet/table3\n");
    CHECK(reproduce(folder, {"--quick", "--full"}).err ==
          "error: --quick: given together with --full, expected one of them\n");
    CHECK(run_in(folder, {experiments + "leet/table3.lua", "--quick", "--full"}).err ==
          "error: --quick: given together with --full, expected one of them\n");
    CHECK(reproduce(folder, {"--compare", ""}).err == "error: --compare: \"\", expected the name of a file\n");
    CHECK(run_in(folder, {experiments + "leet/table1.lua", "--device", "gpu"}).err ==
          "error: --device: \"gpu\", expected cpu\n");
}
