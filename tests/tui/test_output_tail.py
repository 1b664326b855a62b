"""Reading the script's output as it grows."""

from pathlib import Path

from perftui_tui.reading.output import READ_LIMIT, OutputTail


def test_a_file_that_is_not_there_yet_is_empty(tmp_path: Path) -> None:
    tail = OutputTail(tmp_path / "output.log")
    assert tail.poll() is False
    assert tail.view().lines == ()


def test_what_is_appended_is_read_once(tmp_path: Path) -> None:
    log = tmp_path / "output.log"
    log.write_bytes(b"one\n")
    tail = OutputTail(log)
    assert tail.poll()
    before = tail.view()
    with log.open("ab") as file:
        file.write(b"two\r\nthr")
    assert tail.poll()
    assert before.lines == ("one",)
    assert tail.view().lines == ("one", "two", "thr")
    assert not tail.poll()


def test_a_character_cut_in_two_is_whole_again(tmp_path: Path) -> None:
    log = tmp_path / "output.log"
    data = "█ 50%\n".encode()
    tail = OutputTail(log)
    for cut in range(len(data)):
        log.write_bytes(data[: cut + 1])
        tail.poll()
    assert tail.view().lines == ("█ 50%",)


def test_lines_kept_are_bounded_and_counted(tmp_path: Path) -> None:
    log = tmp_path / "output.log"
    log.write_bytes(b"".join(b"line %d\n" % n for n in range(1000)))
    tail = OutputTail(log, lines_kept=100)
    tail.poll()
    view = tail.view()
    assert view.lines[-1] == "line 999"
    assert view.dropped + len(view.lines) == 1000
    assert len(view.lines) < 200


def test_a_long_file_is_entered_near_its_end(tmp_path: Path) -> None:
    log = tmp_path / "output.log"
    log.write_bytes(b"x" * READ_LIMIT + b"\nlast\n")
    tail = OutputTail(log)
    tail.poll()
    assert tail.view().skipped_bytes == 6
    assert tail.view().lines[-1] == "last"
