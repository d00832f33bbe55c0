//! The requested device, from a pipeline file or `--device`. Whether it is available is not checked here.

use std::fmt;
use std::str::FromStr;

/// Where stages that compute on a device should do so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DeviceRequest {
    /// On the CPU. The default, so that keys do not depend on the machine's other devices.
    #[default]
    Cpu,
    /// On all GPUs if there are any, else on the CPU.
    Auto,
    /// On all GPUs.
    AllCuda,
    /// On these GPUs, at least one.
    Cuda(Vec<usize>),
}

impl DeviceRequest {
    /// The accepted values, for messages.
    pub const EXPECTED: &str = "`cpu`, `cuda:N`, several such as `cuda:0,cuda:1`, `cuda` or `auto`";
    /// The same as a regular expression, for the schema.
    pub const PATTERN: &str = "^(cpu|auto|cuda|cuda:[0-9]+(,cuda:[0-9]+)*)$";
}

impl fmt::Display for DeviceRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Auto => f.write_str("auto"),
            Self::AllCuda => f.write_str("cuda"),
            Self::Cuda(gpus) => {
                f.write_str(&gpus.iter().map(|gpu| format!("cuda:{gpu}")).collect::<Vec<_>>().join(","))
            }
        }
    }
}

impl FromStr for DeviceRequest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "cpu" => return Ok(Self::Cpu),
            "auto" => return Ok(Self::Auto),
            "cuda" => return Ok(Self::AllCuda),
            _ => {}
        }
        let mut gpus = Vec::new();
        for word in text.split(',') {
            // `parse` alone would take `+1` as well.
            let digits = word.strip_prefix("cuda:").filter(|d| d.bytes().all(|b| b.is_ascii_digit()));
            let gpu = digits.and_then(|d| d.parse().ok()).ok_or_else(|| format!("expected {}", Self::EXPECTED))?;
            if gpus.contains(&gpu) {
                return Err(format!("`cuda:{gpu}` is listed twice"));
            }
            gpus.push(gpu);
        }
        Ok(Self::Cuda(gpus))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_shown_as_they_are_written() {
        for text in ["cpu", "auto", "cuda", "cuda:0", "cuda:2,cuda:0"] {
            assert_eq!(text.parse::<DeviceRequest>().unwrap().to_string(), text);
        }
        assert_eq!("cuda:1,cuda:0".parse(), Ok(DeviceRequest::Cuda(vec![1, 0])));
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["", "gpu", "CPU", "cuda:", "cuda:x", "cuda:+1", "cuda:-1", "cuda:0,", "cuda:0,1", "cpu,cuda:0"] {
            assert!(text.parse::<DeviceRequest>().unwrap_err().contains("`cuda:N`"), "{text}");
        }
        assert_eq!("cuda:1,cuda:1".parse::<DeviceRequest>(), Err("`cuda:1` is listed twice".into()));
    }
}
