# SPDX-FileCopyrightText: 2026 The osc_ros maintainers
# SPDX-License-Identifier: Apache-2.0

"""Bags of rosbag2 in MCAP: written for Foxglove and `ros2 bag`, readable even if cut short."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import chain
import os
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import yaml

from osc_ros.errors import InputError, installation
from osc_ros.recording.cdr import DEFINITIONS

EXTRA = installation('record')
CHUNK = 2 ** 18  # largest size of a chunk [bytes]
FLUSHED = 1.0  # flush period: a killed process loses at most the messages of this time [s]
VERSION = 8  # version of metadata.yaml that Iron, Jazzy and later read
METADATA = 'metadata.yaml'
UNKNOWN_QOS = ''
# Largest accepted size of a record, of the content of a chunk, and of metadata.yaml [bytes]: a
# small file may declare, or decompress to, more than the memory holds.
MOST_RECORD, MOST_CHUNK, MOST_METADATA = 2 ** 30, 2 ** 26, 2 ** 20


class _Loader(yaml.SafeLoader):
    """Loads YAML without aliases, with which a few lines can fill the memory."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError('an alias')
        return super().compose_node(parent, index)


class Message(NamedTuple):
    """Topic, type, time of arrival [ns since 1970] and serialized content."""

    topic: str
    kind: str
    time: int
    data: bytes


def required_module(name: str) -> Any:
    """Return a module of the extra 'record'; InputError with the remedy if it is missing."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise InputError(f'recordings need the package {name.partition(".")[0]} ({error}): '
                         f'{EXTRA}') from None


@dataclass
class _Topic:
    kind: str
    channel: int
    count: int = 0
    qos: str = UNKNOWN_QOS


class BagWriter:
    """Writes one bag: a folder with an MCAP file and metadata.yaml."""

    # InputError: mcap is not installed; the folder exists, or cannot be created

    def __init__(self, folder: str | os.PathLike[str],
                 definition_of: Callable[[str], str] | None = None) -> None:
        # definition_of: returns the definition of a type that `cdr` does not know, with its parts
        writer = required_module('mcap.writer')
        self.folder = Path(folder)
        self._definition_of = definition_of
        if self.folder.exists():
            raise InputError(f"recording '{self.folder}' exists: give the name of a new "
                             'folder')
        try:
            self.folder.mkdir(parents=True)
            self.file = self.folder / f'{self.folder.name}_0.mcap'
            self._stream = self.file.open('wb')
        except OSError as error:
            raise InputError(f"recording '{self.folder}' cannot be written: {error}") from None
        self._writer = writer.Writer(self._stream, chunk_size=CHUNK,
                                     compression=writer.CompressionType.NONE)
        self._writer.start(profile='ros2', library='osc_ros')
        self._topics: dict[str, _Topic] = {}
        self._first = self._last = 0
        self._flushed = -float('inf')

    @property
    def count(self) -> int:
        """Number of messages so far."""
        return sum(topic.count for topic in self._topics.values())

    @property
    def counts(self) -> dict[str, int]:
        """Number of messages of each topic."""
        return {name: topic.count for name, topic in sorted(self._topics.items())}

    def add_topic(self, name: str, kind: str, qos: str = UNKNOWN_QOS) -> None:
        """Declare a topic with its type, such as std_msgs/msg/String."""
        # `qos`: offered profiles in YAML, as of rosbag2; InputError: the type has no known
        # definition
        if name in self._topics:
            return
        text = DEFINITIONS.get(kind)
        if text is None:
            if self._definition_of is None:
                raise InputError(f"topic '{name}': the definition of {kind} is unknown")
            text = self._definition_of(kind)
        schema = self._writer.register_schema(kind, 'ros2msg', text.encode())
        channel = self._writer.register_channel(name, 'cdr', schema,
                                                {'offered_qos_profiles': qos})
        self._topics[name] = _Topic(kind, channel, 0, qos)

    def write(self, topic: str, kind: str, time: int, data: bytes) -> None:
        """Write a serialized message; OSError, for example, if the disk is full."""
        self.add_topic(topic, kind)
        entry = self._topics[topic]
        self._writer.add_message(entry.channel, time, data, time, entry.count)
        entry.count += 1
        self._first = min(self._first or time, time)
        self._last = max(self._last, time)
        self.flush_if_due()

    def flush_if_due(self) -> None:
        """Every FLUSHED seconds, pass all messages to the operating system; `write` calls this."""
        # OSError, for example, if the disk is full
        if perf_counter() - self._flushed >= FLUSHED:
            self._writer.flush()
            self._flushed = perf_counter()

    def close(self) -> Path:
        """Write the end of the file, and metadata.yaml; return the folder."""
        try:
            self._writer.finish()
        finally:
            self._stream.close()
        (self.folder / METADATA).write_text(yaml.safe_dump(self._metadata(), sort_keys=False),
                                            encoding='utf-8')
        return self.folder

    def abandon(self) -> None:
        """Close the file without its end, after an error; it remains readable up to that point."""
        with suppress(OSError):  # the unwritten bytes fail again
            self._stream.close()

    def remove(self) -> None:
        """Remove the folder again, after `close` or `abandon`."""
        self.file.unlink(missing_ok=True)
        (self.folder / METADATA).unlink(missing_ok=True)
        with suppress(FileNotFoundError):
            self.folder.rmdir()

    def _metadata(self) -> dict[str, Any]:
        start = {'nanoseconds_since_epoch': self._first}
        duration = {'nanoseconds': self._last - self._first}
        return {'rosbag2_bagfile_information': {
            'version': VERSION, 'storage_identifier': 'mcap', 'duration': dict(duration),
            'starting_time': dict(start), 'message_count': self.count,
            'topics_with_message_count': [{
                'topic_metadata': {
                    'name': name, 'type': topic.kind, 'serialization_format': 'cdr',
                    'offered_qos_profiles': topic.qos, 'type_description_hash': ''},
                'message_count': topic.count} for name, topic in sorted(self._topics.items())],
            'compression_format': '', 'compression_mode': '',
            'relative_file_paths': [self.file.name],
            'files': [{'path': self.file.name, 'starting_time': start, 'duration': duration,
                       'message_count': self.count}],
            'custom_data': None, 'ros_distro': os.environ.get('ROS_DISTRO', '')}}


class BagReader:
    """Reads the messages of a bag in the order of the file."""

    # `path`: a folder of rosbag2, or an MCAP file. InputError: mcap is not installed; there is no
    # such file; the bag has another storage.

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._records = required_module('mcap.records')
        self._streams = required_module('mcap.stream_reader')
        # left_out: place of each part that was not read (cut short or damaged), and why
        self.files, self.left_out = _files_of(Path(path)), list[str]()

    def messages(self, topics: Callable[[str, str], bool] = lambda topic, kind: True
                 ) -> Iterator[Message]:
        """Yield the messages of the topics for which `topics` (topic, type) is true."""
        # InputError: a file is not an MCAP file
        for file in self.files:
            yield from self._messages_of(file, topics)

    def _messages_of(self, file: Path, topics: Callable[[str, str], bool]) -> Iterator[Message]:
        records = self._records
        kinds: dict[int, str] = {}
        channels: dict[int, tuple[str, str]] = {}
        count, first, last, place, is_whole, why = 0, 0, 0, 0, False, ''
        try:
            with file.open('rb') as stream:
                reader = self._streams.StreamReader(
                    stream, emit_chunks=True,
                    record_size_limit=min(MOST_RECORD, file.stat().st_size))
                for record in chain.from_iterable(map(self._opened, reader.records)):
                    place = stream.tell()
                    if isinstance(record, records.Schema):
                        kinds[record.id] = record.name
                    elif isinstance(record, records.Channel):
                        channels[record.id] = record.topic, kinds.get(record.schema_id, '')
                    elif isinstance(record, records.Message):
                        count, last = count + 1, record.log_time
                        first = first or last
                        topic, kind = channels[record.channel_id]
                        if topics(topic, kind):
                            yield Message(topic, kind, record.log_time, record.data)
                    elif isinstance(record, records.Footer):
                        is_whole = True
        except OSError as error:
            raise InputError(f"recording '{file}' cannot be read: {error}") from None
        except Exception as error:  # mcap raises errors of many kinds for missing bytes
            if not channels:
                raise InputError(f"'{file}' is not an MCAP file, or has nothing to read "
                                 f'({type(error).__name__}: {error})') from None
            is_whole, why = False, f' ({type(error).__name__}: {error})'
        if not is_whole:
            rest = file.stat().st_size - place
            self.left_out.append(
                f"'{file.name}' is cut short or damaged{why}: it ends after {count} messages, "
                f'{1e-9 * (last - first):.3f} s after the first one' + (
                    f'; the {rest} bytes that follow are left out: `mcap recover` may save more '
                    'of them' if rest else ''))

    def _opened(self, record: Any) -> Iterable[Any]:
        """Return the record, or those of a chunk; ValueError if its checksum is wrong."""
        if not isinstance(record, self._records.Chunk):
            return [record]
        found: list[Any] = self._streams.breakup_chunk(_decompressed(record), validate_crc=True)
        return found


def _decompressed(chunk: Any) -> Any:
    """Return a chunk without compression; InputError if it has not the declared size."""
    size, data = chunk.uncompressed_size, chunk.data
    if size > MOST_CHUNK:
        raise InputError(f'a chunk of {size} bytes: it must have at most {MOST_CHUNK}')
    if chunk.compression == 'zstd':
        data = required_module('zstandard').ZstdDecompressor(max_window_size=MOST_CHUNK
                                                             ).stream_reader(data).read(size + 1)
    elif chunk.compression == 'lz4':
        data = required_module('lz4.frame').LZ4FrameDecompressor().decompress(data, size + 1)
    if len(data) != size:
        raise InputError(f'a chunk of other than the declared {size} bytes')
    return replace(chunk, compression='', data=data)


def _metadata_of(folder: Path) -> Any:
    """Return the content of metadata.yaml; None without a regular file of at most its size."""
    file = folder / METADATA
    if not file.is_file() or file.stat().st_size > MOST_METADATA:
        return None
    return yaml.load(file.read_text(encoding='utf-8'), _Loader)


def _files_of(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        what = 'is no file' if path.exists() else 'does not exist'
        raise InputError(f"recording '{path}' {what}"
                         ': give a folder of rosbag2, or an .mcap file')
    try:
        about = _metadata_of(path)['rosbag2_bagfile_information']
        if about['storage_identifier'] != 'mcap':
            raise InputError(f"recording '{path}' has the storage '{about['storage_identifier']}':"
                             ' give mcap (ros2 bag record -s mcap)')
        named = [path / Path(name).name for name in about['relative_file_paths']]
        if all(file.is_file() for file in named):
            return named
    except (OSError, KeyError, TypeError, UnicodeError, RecursionError, yaml.YAMLError):
        pass  # a recording that was killed has no metadata
    found = sorted(file for file in path.glob('*.mcap') if file.is_file())
    if not found:
        raise InputError(f"'{path}' has no .mcap file: give a folder of rosbag2 with "
                         'storage mcap')
    return found
