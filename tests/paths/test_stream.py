"""The whole stream contract, on every path, in both roles, and on plain TCP as the reference."""

from __future__ import annotations

import pytest

from fastsock import testing

# What a path cannot do as TCP does, each with its reason (docs/limits.md). Each must still fail: xfail is strict.
_NO_RESET = "an AF_UNIX stream cannot tell a reset by SO_LINGER 0: the other end sees an orderly end"
KNOWN = {
    ("shm", "flags.urgent_byte"): "urgent bytes travel in the stream, so they need SO_OOBINLINE at the receiver",
    ("shm", "flags.waitall_with_peek"): "a peek returns what is there",
    ("unix", "flags.waitall_with_peek"): "a peek on an AF_UNIX stream returns what is there",
    ("unix", "ending.shut_reading"): "an AF_UNIX stream refuses to send to an end that shut its reading half",
    ("unix", "ending.shut_when_both_are_shut"): "an AF_UNIX stream takes a shutdown() of what is shut already",
    ("unix", "ending.linger_of_zero_resets"): _NO_RESET,
    ("unix", "ending.linger_of_zero_resets_by_number"): _NO_RESET,
    ("unix", "ending.reset_seen_by_a_sender"): _NO_RESET,
    ("unix", "ending.reset_after_data"): _NO_RESET,
    ("unix", "ending.reset_read_from_the_error_option"): _NO_RESET,
    ("unix", "ending.names_after_reset"): _NO_RESET,
    ("unix", "ending.reset_wakes_a_blocked_receiver"): _NO_RESET,
    ("unix", "closing.masks_of_linger_zero"): _NO_RESET,
    **{
        ("unix", f"closing.{check}"): "an AF_UNIX stream says HUP as soon as its peer is closed or has shut both halves"
        for check in (
            "close_with_much_unread",
            "close_with_little_unread",
            "close_with_nothing_unread",
            "close_by_number_with_much_unread",
            "close_by_a_range_of_numbers",
            "number_replaced_by_another_file",
            "close_behind_a_half_close",
            "close_behind_a_shutdown_of_both",
            "shutdown_of_both_with_much_unread",
            "close_then_exit",
            "socket_dropped_without_a_close",
            "close_by_a_forked_child",
            "child_goes_on_after_the_parent_closed",
            "close_of_the_last_duplicate",
            "send_to_who_closed",
            "error_of_a_send_to_who_closed",
            "own_half_close_after_a_close",
            "reading_shut_shows_only_here",
        )
    },
}


@pytest.mark.parametrize("check", testing.checks(), ids=testing.name)
def test_stream(check, maker, kind, request):
    reason = KNOWN.get((kind, testing.name(check)))
    if reason is not None:
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
    check(maker)
