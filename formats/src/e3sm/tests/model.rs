//! A program's output as a plain model, and the files that E3SM-IO makes of it, in both layouts.

use crate::cdf::{
    Alignment, Attribute, Dimension, Endian, Header, Layout, Records, Type, Variable, Version,
};
use proptest::prelude::*;

/// A request: canonical elements.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) at: u32,
    pub(super) len: u32,
}

/// The elements of a decomposition that each process owns.
pub(super) type Owned = Vec<Vec<Request>>;

/// A variable: the decomposition that it uses, its type, whether it has records.
#[derive(Clone, Debug)]
pub(super) struct Made {
    pub(super) decomposition: Option<usize>,
    pub(super) kind: Type,
    pub(super) records: bool,
}

/// The output of a program.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) lev: u64,
    pub(super) ncol: u64,
    pub(super) records: u64,
    pub(super) variables: Vec<Made>,
    /// The owners of `ncol`, and of `lev` and `ncol`.
    pub(super) owned: [Owned; 2],
    /// The subfile of each process.
    pub(super) subfile: Vec<usize>,
    /// Where the data of each file begin: at a multiple of this.
    pub(super) border: u64,
}

/// Cuts `rows` of `row` elements at random places among processes; an element without owner is a
/// hole.
fn decompose(row: u64, rows: u64, owners: &[u8], processes: usize, shuffled: bool) -> Owned {
    let mut owned: Owned = vec![Vec::new(); processes];
    for element in 0..row * rows {
        let owner = usize::from(owners[element as usize % owners.len()]) % (processes + 1);
        let Some(list) = owned.get_mut(owner) else { continue };
        match list.last_mut() {
            Some(last) if u64::from(last.at + last.len) == element && element % row != 0 => {
                last.len += 1
            }
            _ => list.push(Request { at: element as u32, len: 1 }),
        }
    }
    if shuffled {
        owned.iter_mut().for_each(|list| list.reverse());
    }
    owned
}

/// Programs of a few processes.
pub(super) fn model() -> impl Strategy<Value = Model> {
    let variable = (0..3_usize, 0..11_usize, any::<bool>()).prop_map(|(which, kind, records)| {
        Made { decomposition: which.checked_sub(1), kind: Type::ALL[kind], records }
    });
    let shape = (1..4_u64, 1..20_u64, 0..4_u64, 1..6_usize, 1..4_usize);
    let variables = proptest::collection::vec(variable, 1..8);
    let owners = proptest::collection::vec(any::<u8>(), 1..40);
    let subfiles = proptest::collection::vec(any::<u8>(), 6);
    let border = proptest::sample::select(vec![4_u64, 512]);
    let chosen = (subfiles, border);
    let all = (shape, variables, owners.clone(), owners, any::<bool>(), chosen).prop_map(
        |((lev, ncol, records, processes, files), variables, first, second, shuffled, chosen)| {
            let (chosen, border) = chosen;
            let files = files.min(processes);
            let subfile = (0..processes)
                .map(|p| if p < files { p } else { usize::from(chosen[p]) % files })
                .collect();
            let owned = [
                decompose(ncol, 1, &first, processes, shuffled),
                decompose(ncol, lev, &second, processes, shuffled),
            ];
            Model { lev, ncol, records, variables, owned, subfile, border }
        },
    );
    // Data that follow a header of whole borders at once may have been aligned or not.
    let is_told = |model: &Model| {
        model.border == 4 || !model.subfile_header(0).size().is_multiple_of(model.border)
    };
    all.prop_filter("borders that nothing tells", is_told)
}

impl Model {
    pub(super) fn subfiles(&self) -> usize {
        self.subfile.iter().max().map_or(0, |last| last + 1)
    }

    /// The value of an element: bytes that no other element has.
    fn value(&self, variable: usize, record: u64, element: u64) -> Vec<u8> {
        let number = (variable as u64) << 40 | record << 32 | element;
        let bytes = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        bytes[..self.variables[variable].kind.size() as usize].to_vec()
    }

    fn elements(&self, variable: usize) -> u64 {
        match self.variables[variable].decomposition {
            None => 2,
            Some(0) => self.ncol,
            Some(_) => self.ncol * self.lev,
        }
    }

    /// The header that the program defined.
    pub(super) fn header(&self) -> Header {
        let dimension = |(name, length): (&str, u64)| Dimension { name: name.into(), length };
        let lengths =
            [("lev", self.lev), ("time", 0), ("two", 2), ("ncol", self.ncol), ("layer", self.lev)];
        let variable = |(id, made): (usize, &Made)| {
            let own: &[usize] = match made.decomposition {
                None => &[2],
                Some(0) => &[3],
                Some(_) if id % 2 == 0 => &[0, 3],
                // Another dimension of the same length.
                Some(_) => &[4, 3],
            };
            Variable {
                name: format!("v{id}").as_str().into(),
                dimensions: made
                    .records
                    .then_some(1)
                    .into_iter()
                    .chain(own.iter().copied())
                    .collect(),
                attributes: vec![Attribute::of_ints("id", &[id as i32])],
                kind: made.kind,
                told_size: 0,
                begin: 0,
            }
        };
        let mut header = Header {
            version: Version::Data64,
            records: Records::Known(self.records),
            dimensions: lengths.map(dimension).to_vec(),
            attributes: vec![Attribute::of_ints("model", &[7])],
            variables: self.variables.iter().enumerate().map(variable).collect(),
        };
        header.assign(self.alignment()).unwrap();
        header
    }

    /// The same program with PnetCDF's own borders, as sets are read that do not tell any.
    pub(super) fn unaligned(&self) -> Self {
        Model { border: 512, ..self.clone() }
    }

    fn alignment(&self) -> Alignment {
        Alignment { variables: self.border, ..Alignment::default() }
    }

    /// The file that the program would have written by itself; `hole` stands where nobody wrote.
    pub(super) fn canonical(&self, hole: impl Fn(Type) -> Vec<u8>) -> Vec<u8> {
        let header = self.header();
        let layout = Layout::of(&header).unwrap();
        let mut file = header.write().unwrap();
        file.resize(layout.end(self.records).unwrap() as usize, 0);
        for (id, made) in self.variables.iter().enumerate() {
            let size = made.kind.size() as usize;
            for record in 0..if made.records { self.records } else { 1 } {
                let begin = layout.offset_of(id, record).unwrap() as usize;
                for element in 0..self.elements(id) {
                    let value = if self.is_written(id, element) {
                        self.value(id, record, element)
                    } else {
                        hole(made.kind)
                    };
                    let at = begin + element as usize * size;
                    file[at..at + size].copy_from_slice(&value);
                }
            }
        }
        file
    }

    fn is_written(&self, variable: usize, element: u64) -> bool {
        let Some(k) = self.variables[variable].decomposition else { return true };
        let has = |request: &Request| {
            (u64::from(request.at)..u64::from(request.at + request.len)).contains(&element)
        };
        self.owned[k].iter().flatten().any(has)
    }

    fn processes_of(&self, subfile: usize) -> Vec<usize> {
        (0..self.subfile.len()).filter(|p| self.subfile[*p] == subfile).collect()
    }

    fn count(&self, k: usize, process: usize) -> u64 {
        self.owned[k][process].iter().map(|request| u64::from(request.len)).sum()
    }

    /// The header of a subfile, without places.
    fn subfile_header(&self, subfile: usize) -> Header {
        let mut header = self.header();
        let processes = self.processes_of(subfile);
        let first = header.dimensions.len();
        let mut add = |name: String, length: u64| {
            header.dimensions.push(Dimension { name: name.as_str().into(), length });
        };
        add("nblobs".into(), processes.len() as u64);
        for k in 0..2 {
            let elements = processes.iter().map(|p| self.count(k, *p)).sum::<u64>();
            add(format!("D{}.nelems", k + 1), elements.max(1));
        }
        for k in 0..2 {
            let most = processes.iter().map(|p| self.owned[k][*p].len()).max().unwrap_or(0);
            add(format!("D{}.max_nreqs", k + 1), most.max(1) as u64);
        }
        let counts = [self.subfile.len() as i32, 2, self.subfiles() as i32];
        let names = ["global_nprocs", "num_decompositions", "num_subfiles"];
        let added =
            names.iter().zip(counts).map(|(name, count)| Attribute::of_ints(name, &[count]));
        header.attributes.splice(0..0, added);
        for (variable, made) in header.variables.iter_mut().zip(&self.variables) {
            if let Some(k) = made.decomposition {
                let global: Vec<i32> = variable.dimensions.iter().map(|id| *id as i32).collect();
                let added = [
                    Attribute::of_ints("decomposition_ID", &[k as i32 + 1]),
                    Attribute::of_ints("global_dimids", &global),
                ];
                variable.attributes.splice(0..0, added);
                variable.dimensions.truncate(usize::from(made.records));
                variable.dimensions.push(first + 1 + k);
            }
        }
        header.variables.splice(0..0, (0..10).map(|id| table(id / 5, id % 5, first)));
        header
    }

    /// A table's row of a process, big-endian.
    fn row(&self, k: usize, table: usize, process: usize, start: u64) -> Vec<u8> {
        let requests = &self.owned[k][process];
        match table {
            0 => (requests.len() as u32).to_be_bytes().to_vec(),
            1 => start.to_be_bytes().to_vec(),
            2 => self.count(k, process).to_be_bytes().to_vec(),
            3 => requests.iter().flat_map(|request| request.at.to_be_bytes()).collect(),
            _ => requests.iter().flat_map(|request| request.len.to_be_bytes()).collect(),
        }
    }

    /// The values that a process has of a variable in a record.
    fn part(&self, variable: usize, record: u64, process: usize) -> Vec<u8> {
        let Some(k) = self.variables[variable].decomposition else {
            let values = (0..self.elements(variable)).map(|e| self.value(variable, record, e));
            return values.flatten().collect();
        };
        let elements = self.owned[k][process].iter().flat_map(|r| r.at..r.at + r.len);
        elements.flat_map(|element| self.value(variable, record, element.into())).collect()
    }

    /// A subfile in PnetCDF's layout. Bytes that E3SM-IO never writes are garbage here.
    pub(super) fn pnetcdf(&self, subfile: usize) -> Vec<u8> {
        let mut header = self.subfile_header(subfile);
        header.assign(self.alignment()).unwrap();
        let layout = Layout::of(&header).unwrap();
        let mut file = header.write().unwrap();
        file.resize(layout.end(self.records).unwrap() as usize, 0xA5);
        let mut put = |variable: usize, record: u64, at: u64, bytes: &[u8]| {
            let start = (layout.offset_of(variable, record).unwrap() + at) as usize;
            file[start..start + bytes.len()].copy_from_slice(bytes);
        };
        let mut starts = [0; 2];
        for (blob, process) in self.processes_of(subfile).into_iter().enumerate() {
            for (k, start) in starts.iter().enumerate() {
                for table in 0..5 {
                    let slot = layout.slots[k * 5 + table];
                    let width = slot.size / self.processes_of(subfile).len() as u64;
                    put(
                        k * 5 + table,
                        0,
                        blob as u64 * width,
                        &self.row(k, table, process, *start),
                    );
                }
            }
            for (id, made) in self.variables.iter().enumerate() {
                if made.decomposition.is_none() && blob > 0 {
                    continue;
                }
                let start = made.decomposition.map_or(0, |k| starts[k]) * made.kind.size();
                for record in 0..if made.records { self.records } else { 1 } {
                    put(id + 10, record, start, &self.part(id, record, process));
                }
            }
            for (k, start) in starts.iter_mut().enumerate() {
                *start += self.count(k, process);
            }
        }
        file
    }

    /// A subfile in HDF5, as a machine of this order of bytes writes it.
    pub(super) fn hdf5(&self, subfile: usize, endian: Endian) -> Vec<u8> {
        let header = self.subfile_header(subfile).write_as(endian).unwrap();
        let mut data = Vec::new();
        let mut add = |mut bytes: Vec<u8>, size: u64| {
            if endian == Endian::Little {
                crate::cdf::swap(&mut bytes, size);
            }
            data.extend(bytes);
        };
        let mut starts = [0; 2];
        for (blob, process) in self.processes_of(subfile).into_iter().enumerate() {
            for (k, start) in starts.iter_mut().enumerate() {
                for table in 0..5 {
                    let size = if table == 1 || table == 2 { 8 } else { 4 };
                    add(self.row(k, table, process, *start), size);
                }
                *start += self.count(k, process);
            }
            for (id, made) in self.variables.iter().enumerate() {
                for record in 0..if made.records { self.records } else { 1 } {
                    if made.decomposition.is_some() || blob == 0 {
                        add(self.part(id, record, process), made.kind.size());
                    }
                }
            }
        }
        super::container::with_datasets(&[("header_blob", &header), ("data_blob", &data)])
    }
}

/// One of the five variables of a decomposition; `first` is the dimension nblobs.
fn table(k: usize, table: usize, first: usize) -> Variable {
    let name = format!("D{}.{}", k + 1, super::super::headers::TABLES[table]);
    let mut dimensions = vec![first];
    if table > 2 {
        dimensions.push(first + 3 + k);
    }
    let global: &[i32] = if k == 0 { &[3] } else { &[0, 3] };
    let attributes =
        if table == 0 { vec![Attribute::of_ints("global_dimids", global)] } else { vec![] };
    let kind = if table == 1 || table == 2 { Type::Int64 } else { Type::Int };
    Variable { name: name.as_str().into(), dimensions, attributes, kind, told_size: 0, begin: 0 }
}
