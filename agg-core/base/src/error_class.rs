//! Error classes of the MPI standard: one table of their names, meanings, and numbers of the
//! system.

/// Hands the table of error classes to the macro `$then`.
///
/// One row is: class, the name of its constant in lower case, its name in the standard without the
/// prefix `MPI_`, its meaning, the `errno` for a caller of system calls if the system gave none,
/// and the numbers of the system that belong to it.
#[macro_export]
macro_rules! error_classes {
    ($then:ident) => { $then! {
        Access err_access "ERR_ACCESS" "permission denied" EACCES [EACCES EPERM];
        Amode err_amode "ERR_AMODE" "invalid or contradictory access mode" EINVAL [];
        Arg err_arg "ERR_ARG" "invalid argument" EINVAL [];
        BadFile err_bad_file "ERR_BAD_FILE" "invalid file name" EINVAL
            [ENAMETOOLONG EISDIR ENOTDIR ELOOP];
        Buffer err_buffer "ERR_BUFFER" "invalid buffer" EFAULT [];
        Comm err_comm "ERR_COMM" "invalid communicator" EINVAL [];
        Conversion err_conversion "ERR_CONVERSION" "a data conversion function failed" EIO [];
        Count err_count "ERR_COUNT" "invalid count" EINVAL [];
        DupDatarep err_dup_datarep "ERR_DUP_DATAREP"
            "the data representation is registered already" EEXIST [];
        File err_file "ERR_FILE" "invalid file handle" EBADF [];
        FileExists err_file_exists "ERR_FILE_EXISTS" "the file exists" EEXIST [EEXIST];
        FileInUse err_file_in_use "ERR_FILE_IN_USE" "the file is in use" EBUSY [EBUSY ETXTBSY];
        Info err_info "ERR_INFO" "invalid info object" EINVAL [];
        InfoKey err_info_key "ERR_INFO_KEY" "info key too long" EINVAL [];
        InfoValue err_info_value "ERR_INFO_VALUE" "info value too long" EINVAL [];
        Intern err_intern "ERR_INTERN" "internal error of aggio" EIO [];
        Io err_io "ERR_IO" "input/output error" EIO [];
        NoMem err_no_mem "ERR_NO_MEM" "out of memory" ENOMEM [ENOMEM];
        NoSpace err_no_space "ERR_NO_SPACE" "no space left" ENOSPC [ENOSPC EFBIG];
        NoSuchFile err_no_such_file "ERR_NO_SUCH_FILE" "the file does not exist" ENOENT [ENOENT];
        NotSame err_not_same "ERR_NOT_SAME" "a collective argument differs between ranks"
            EINVAL [];
        Other err_other "ERR_OTHER" "other error" EIO [];
        Quota err_quota "ERR_QUOTA" "quota exceeded" EDQUOT [EDQUOT];
        ReadOnly err_read_only "ERR_READ_ONLY" "read-only file or file system" EROFS [EROFS];
        Request err_request "ERR_REQUEST" "invalid request" EINVAL [];
        Type err_type "ERR_TYPE" "invalid datatype" EINVAL [];
        UnsupportedDatarep err_unsupported_datarep "ERR_UNSUPPORTED_DATAREP"
            "unsupported data representation" EOPNOTSUPP [];
        UnsupportedOperation err_unsupported_operation "ERR_UNSUPPORTED_OPERATION"
            "unsupported operation" EOPNOTSUPP [EOPNOTSUPP ENOSYS];
    } };
}

macro_rules! define {
    ($($variant:ident $constant:ident $name:literal $meaning:literal $errno:ident
        [$($of:ident)*];)*) => {
        /// The error classes of the MPI standard that file operations return (MPI-4.1, 14.7 and
        /// 9.4).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum ErrorClass { $(#[doc = $meaning] $variant),* }

        impl ErrorClass {
            /// Every class, in declaration order; the position is the wire form.
            pub const ALL: &'static [ErrorClass] = &[$(ErrorClass::$variant),*];

            /// The name in the standard without its `MPI_` prefix, for example `ERR_NO_SPACE`.
            pub fn name(self) -> &'static str {
                match self { $(ErrorClass::$variant => $name),* }
            }

            /// The meaning of the class, in a few words.
            pub fn meaning(self) -> &'static str {
                match self { $(ErrorClass::$variant => $meaning),* }
            }

            /// The class of an `errno` of any file operation; [`ErrorClass::Io`] if the number
            /// belongs to no other.
            pub fn of_errno(errno: i32) -> Self {
                match errno {
                    $($(libc::$of => Self::$variant,)*)*
                    _ => Self::Io,
                }
            }

            /// The `errno` for a caller of system calls if the system gave none.
            pub fn errno(self) -> i32 {
                match self { $(ErrorClass::$variant => libc::$errno),* }
            }
        }

        #[cfg(test)]
        const NUMBERS: &[(ErrorClass, &[i32])] =
            &[$((ErrorClass::$variant, &[$(libc::$of),*])),*];

        #[cfg(test)]
        const CONSTANTS: &[(ErrorClass, &str)] =
            &[$((ErrorClass::$variant, stringify!($constant))),*];
    };
}

error_classes!(define);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_class_leads_back_to_it_unless_no_number_of_the_system_means_it() {
        for (class, numbers) in NUMBERS {
            let expected = if numbers.is_empty() || *class == ErrorClass::BadFile {
                ErrorClass::Io
            } else {
                *class
            };
            let back = ErrorClass::of_errno(class.errno());
            let shared = [ErrorClass::UnsupportedDatarep, ErrorClass::DupDatarep];
            assert!(back == expected || shared.contains(class), "{class:?}: {back:?}");
            for number in *numbers {
                assert_eq!(ErrorClass::of_errno(*number), *class, "{number}");
            }
        }
        assert_eq!(ErrorClass::of_errno(0), ErrorClass::Io);
        assert_eq!(ErrorClass::of_errno(libc::EINVAL), ErrorClass::Io);
    }

    #[test]
    fn a_class_has_the_name_of_its_constant() {
        for (class, constant) in CONSTANTS {
            assert_eq!(class.name(), constant.to_uppercase());
        }
    }
}
