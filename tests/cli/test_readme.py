"""What the README shows is what tilegen does: the program is the example's, the main loop is emitted."""

import re
from pathlib import Path

from tilegen.cli.loading import load_kernel

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
EXAMPLE = ROOT / "examples" / "matmul.py"


def block(language):
    return re.search(rf"```{language}\n(.*?)```", README.read_text(), re.DOTALL)


def main_loop():
    """The consumers' loop over k, at the left margin."""
    emission = load_kernel(f"{EXAMPLE}:matmul_relu").emit(
        target="sm_90a", block_N=256, block_K=64, threads=256
    )
    lines = emission.source.splitlines()
    start = max(number for number, line in enumerate(lines) if line.startswith("    for (int k = 0; "))
    end = next(number for number in range(start, len(lines)) if lines[number] == "    }")
    return "".join(f"{line.removeprefix('    ')}\n" for line in lines[start : end + 1])


def test_the_main_loop_is_the_emitted_one(update_golden):
    if update_golden:
        start, end = block("cpp").span(1)
        text = README.read_text()
        README.write_text(text[:start] + main_loop() + text[end:])
    assert block("cpp")[1] == main_loop(), "run pytest --update-golden"


def test_the_program_is_the_example():
    def statements(text):
        return re.sub(r"\s+", "", text[text.index("def matmul_relu") : text.index("return C")])

    assert statements(block("python")[1]) == statements(EXAMPLE.read_text())


def test_the_two_commands():
    commands = re.findall(r"```sh\n(.*?)\n```", README.read_text())
    assert commands == [
        "pip install . && tilegen run examples/matmul.py",
        "pip install -e '.[test]' && pytest",
    ]


def test_the_guides_programs_run(require_tool, tmp_path, monkeypatch):
    require_tool("host_compiler")
    monkeypatch.setattr("tilegen.runtime.devices.present_device", lambda: None)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/guide.md").read_text(), re.DOTALL)
    eager = next(text for text in blocks if "def scaled" in text)
    lazy = next(text for text in blocks if "@T.prim_func" in text)
    vectors = "a, b = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)\n"
    script = tmp_path / "guide.py"
    script.write_text(eager + "first = b\n" + vectors + lazy)
    names: dict = {}
    exec(compile(script.read_text(), str(script), "exec"), names)
    assert (names["first"] == 2.5).all() and (names["c"] == names["a"] + 1).all()
