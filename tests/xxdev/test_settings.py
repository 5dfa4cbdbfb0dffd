"""Settings of message passing: environment, checks, changes from code; and which device is made."""

from __future__ import annotations

import pytest

from fastsock import config
from fastsock.xxdev import Code, Device, XxdevError, settings


@pytest.fixture(autouse=True)
def _restored():
    yield
    settings.reload()


def test_the_environment_is_read():
    found = settings.from_environment({"FASTSOCK_MPJ_EAGER_LIMIT": "64K", "FASTSOCK_MPJ_CONNECT_MS": "250"})
    assert (found.eager_limit, found.connect_ms, found.device) == (65536, 250, "iodev")
    assert settings.from_environment({"FASTSOCK_MPJ_EAGER_LIMIT": ""}) == settings.Settings()


@pytest.mark.parametrize("text", ["-1", "much", "1.5", "1Q"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(config.ConfigError, match="FASTSOCK_MPJ_EAGER_LIMIT"):
        settings.from_environment({"FASTSOCK_MPJ_EAGER_LIMIT": text})


def test_what_is_no_way_is_refused():
    assert settings.from_environment({"FASTSOCK_MPJ_SHARED_MEMORY": "direct"}).shared_memory == "direct"
    with pytest.raises(config.ConfigError, match=r"FASTSOCK_MPJ_SHARED_MEMORY.*measured, buffers"):
        settings.from_environment({"FASTSOCK_MPJ_SHARED_MEMORY": "fast"})


def test_changes_from_code():
    assert settings.configure(eager_limit="1M").eager_limit == 1 << 20
    with pytest.raises(config.ConfigError, match="there is no setting 'eager'"):
        settings.configure(eager=1)
    assert settings.current().eager_limit == 1 << 20


def test_devices_by_name():
    assert Device.new_instance("smpdev").name == "smpdev"
    settings.configure(device="sysvdev")
    assert Device.new_instance().name == "sysvdev"
    assert Device.new_instance("fastsock.xxdev.iodev:Iodev").name == "iodev"
    with pytest.raises(XxdevError, match="choose iodev, ibvdev, smpdev, sysvdev") as caught:
        Device.new_instance("niodev")
    assert caught.value.code == Code.ARGUMENT


def test_calls_before_init_are_refused():
    with pytest.raises(XxdevError, match=r"call init\(\) first"):
        Device.new_instance("iodev").send(b"", 0, 1)
