//! Write a Parquet file by column and row group, so that memory use is limited to one column of one row group and the
//! encoded data.

use crate::columns::{Column, Packing};
use crate::manifest::TableEntry;
use crate::{Error, WriteOptions};
use arrow_schema::{DataType, Schema};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{ArrowWriterOptions, compute_leaves};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::schema::types::ColumnPath;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

/// Rows per row group: enough for efficient dictionaries, few enough for filters to skip groups.
pub(crate) const ROW_GROUP: usize = 256 * 1024;
/// Rows per data page: a decompressed page fits into the second-level cache.
const PAGE_ROWS: usize = 64 * 1024;
const PAGE_BYTES: usize = 8 << 20;
/// Size below which text dictionaries never fall back to plain text, so that readers convert each distinct text once.
const DICTIONARY_BYTES: usize = 64 << 20;

/// Write `rows` rows to `path`, and return size and checksum of the file.
pub(crate) fn write(
    path: &Path,
    rows: usize,
    columns: &[Column<'_>],
    options: &WriteOptions,
) -> Result<TableEntry, Error> {
    let file = File::create(path).map_err(Error::io(path, "create"))?;
    let sink = Counted { inner: BufWriter::with_capacity(1 << 18, file), bytes: 0, crc: crc32fast::Hasher::new() };
    let sink = encode(path, sink, rows, columns, options)?;
    let (bytes, crc) = (sink.bytes, sink.crc.finalize());
    let file = sink.inner.into_inner().map_err(|e| Error::io(path, "write")(e.into_error()))?;
    if options.sync {
        file.sync_all().map_err(Error::io(path, "sync"))?;
    }
    Ok(TableEntry { rows: rows as u64, bytes: Some(bytes), crc32: Some(format!("{crc:08x}")) })
}

/// Encode a table as Parquet into `sink`, column by column and row group by row group; the cancel flag is checked
/// before each column.
fn encode<W: Write + Send>(
    path: &Path,
    sink: W,
    rows: usize,
    columns: &[Column<'_>],
    options: &WriteOptions,
) -> Result<W, Error> {
    let fail = |e| Error::encode(path, e);
    let schema = Arc::new(Schema::new(columns.iter().map(|c| c.field.clone()).collect::<Vec<_>>()));
    let settings = ArrowWriterOptions::new().with_properties(properties(columns));
    let writer = ArrowWriter::try_new_with_options(sink, schema, settings).map_err(fail)?;
    let (mut file, groups) = writer.into_serialized_writer().map_err(fail)?;
    for group in 0..rows.div_ceil(ROW_GROUP) {
        let range = group * ROW_GROUP..rows.min((group + 1) * ROW_GROUP);
        let writers = groups.create_column_writers(group).map_err(fail)?;
        let mut row_group = file.next_row_group().map_err(fail)?;
        for (mut writer, column) in writers.into_iter().zip(columns) {
            options.check()?;
            let array =
                (column.make)(range.clone()).map_err(|detail| Error::Encode { path: path.to_path_buf(), detail })?;
            for leaf in compute_leaves(&column.field, &array).map_err(fail)? {
                writer.write(&leaf).map_err(fail)?;
            }
            writer.close().and_then(|chunk| chunk.append_to_row_group(&mut row_group)).map_err(fail)?;
        }
        row_group.close().map_err(fail)?;
    }
    file.into_inner().map_err(fail)
}

/// Parquet settings: zstd compression, sizes of pages and row groups, and the encoding of each column.
fn properties(columns: &[Column<'_>]) -> WriterProperties {
    let level = ZstdLevel::try_new(1).unwrap_or_default();
    let mut builder = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_created_by(crate::WRITER.to_owned())
        .set_compression(Compression::ZSTD(level))
        .set_max_row_group_row_count(Some(ROW_GROUP))
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_data_page_size_limit(PAGE_BYTES)
        .set_dictionary_page_size_limit(DICTIONARY_BYTES)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true);
    for column in columns {
        let path = ColumnPath::from(column.field.name().as_str());
        let text = matches!(column.field.data_type(), DataType::Utf8);
        builder = match column.packing {
            Packing::Dictionary => builder.set_column_dictionary_enabled(path, true),
            Packing::Delta => {
                let encoding = if text { Encoding::DELTA_LENGTH_BYTE_ARRAY } else { Encoding::DELTA_BINARY_PACKED };
                builder.set_column_dictionary_enabled(path.clone(), false).set_column_encoding(path, encoding)
            }
        };
    }
    builder.build()
}

/// Writer that counts the bytes it passes on, and computes their checksum.
struct Counted<W> {
    inner: W,
    bytes: u64,
    crc: crc32fast::Hasher,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        let written = self.inner.write(data)?;
        self.crc.update(&data[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.inner.flush()
    }
}
