//! Where the parts of a view begin that a program put together, such as chunks of a dataset.

use super::View;

impl View {
    /// Where in the file the parts begin that `len` data bytes from `position` on are in, in order:
    /// the fields of a filetype that is a structure of several, else the view itself. A part's
    /// first data byte may lie further on. `None` without data, or if it is in several copies of
    /// the filetype.
    pub fn parts(&self, position: u64, len: u64) -> Option<Vec<u64>> {
        let last = position.checked_add(len.checked_sub(1)?)?;
        let in_one_copy = last < self.filetype.size();
        let Some(fields) = self.filetype.fields() else {
            let start = match self.is_contiguous() {
                true => self.offset_at(position),
                false => self.displacement,
            };
            return (in_one_copy || self.is_contiguous()).then(|| vec![start]);
        };
        if !in_one_copy {
            return None;
        }
        let place = |field: &i64| self.displacement.checked_add_signed(*field);
        let parts = fields.iter().map(place).collect::<Option<Vec<u64>>>()?;
        let upto = |offset: u64| parts.partition_point(|part| *part <= offset);
        let (first, end) = (upto(self.offset_at(position)), upto(self.offset_at(last)));
        Some(parts.get(first.checked_sub(1)?..end)?.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Representation, View};
    use crate::datatype::Datatype;

    /// Two rows of a chunk, which begin `skip` bytes behind its start.
    fn rows(skip: i64) -> Datatype {
        let rows = Datatype::hindexed(&[(4, skip), (4, skip + 10)], &Datatype::bytes(1));
        rows.and_then(|rows| rows.resized(0, 40)).expect("a small type")
    }

    fn view(at: u64, filetype: Datatype) -> View {
        View::new(at, Datatype::bytes(1), filetype, Representation::Native, true).expect("a view")
    }

    fn chunks() -> View {
        let fields = [(1, 0, rows(6)), (1, 50, Datatype::bytes(40)), (1, 90, rows(0))];
        view(1000, Datatype::structure(&fields).expect("a structure"))
    }

    #[test]
    fn parts_begin_where_fields_were_placed_and_not_at_their_first_bytes() {
        assert_eq!(chunks().parts(0, 56), Some(vec![1000, 1050, 1090]));
        assert_eq!(chunks().offset_at(0), 1006);
    }

    #[test]
    fn parts_without_a_byte_of_the_data_do_not_count() {
        assert_eq!(chunks().parts(8, 40), Some(vec![1050]));
        assert_eq!(chunks().parts(7, 2), Some(vec![1000, 1050]));
        assert_eq!(chunks().parts(48, 1), Some(vec![1090]));
        assert_eq!(chunks().parts(3, 0), None);
    }

    #[test]
    fn a_view_that_is_no_structure_is_one_part() {
        assert_eq!(view(700, rows(6)).parts(0, 8), Some(vec![700]));
        assert_eq!(view(700, Datatype::bytes(1)).parts(30, 99), Some(vec![730]));
        let one = Datatype::structure(&[(1, 3, rows(0))]).expect("a structure");
        assert_eq!(view(700, one).parts(0, 8), Some(vec![700]));
    }

    #[test]
    fn what_goes_on_in_another_copy_has_no_known_parts() {
        assert_eq!(chunks().parts(40, 17), None);
        assert_eq!(view(700, rows(6)).parts(8, 1), None);
        assert_eq!(chunks().parts(u64::MAX, 2), None);
    }

    #[test]
    fn fields_that_do_not_ascend_are_no_parts() {
        let (a, b) = (Datatype::bytes(4), rows(0));
        let fields = [(1, 60, a.clone()), (1, 0, b)];
        let structure = Datatype::structure(&fields).expect("a structure");
        assert_eq!(structure.fields(), None);
        let empty = [(1, 9, a.clone()), (0, 20, a.clone()), (1, 30, a)];
        let structure = Datatype::structure(&empty).expect("a structure");
        assert_eq!(structure.fields(), Some(&[9, 30][..]));
        assert_eq!(structure.resized(0, 99).expect("bounds").fields(), Some(&[9, 30][..]));
    }
}
